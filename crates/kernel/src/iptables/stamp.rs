//! Whether tables were changed, asked of the kernel without a program.

use super::legacy::Socket;
use super::look::legacy_tables;
use super::{Stamp, Table, Variant};
use crate::nft::{Connection, Transport};

/// What stamps are made from, with a socket that is opened for the first and kept.
#[derive(Debug)]
pub(super) enum Watch {
    /// How many entries the tables have, and how large they are: each rule and chain counts in both.
    Legacy { is_ipv6: bool, socket: Option<Socket>, loaded: [bool; 2] },
    /// The number of the last commit to nf_tables, by any process.
    Nft(Option<Connection>),
}

impl Watch {
    pub(super) fn new(variant: Variant, is_ipv6: bool) -> Watch {
        match variant {
            Variant::Legacy => Watch::Legacy { is_ipv6, socket: None, loaded: [false; 2] },
            Variant::Nft => Watch::Nft(None),
        }
    }

    pub(super) fn stamp(&mut self) -> Option<Stamp> {
        match self {
            Watch::Nft(connection) => {
                let kernel = match connection {
                    Some(kernel) => kernel,
                    None => connection.insert(Connection::open().ok()?),
                };
                Some(Stamp([kernel.generation().ok()?.into(), 0, 0, 0]))
            }
            Watch::Legacy { is_ipv6, socket, loaded } => {
                let socket = match socket {
                    Some(socket) => socket,
                    None => socket.insert(Socket::open(*is_ipv6).ok()?),
                };
                // A table that was loaded once stays.
                if loaded.contains(&false) {
                    let names = legacy_tables(*is_ipv6);
                    *loaded = Table::BOTH.map(|table| names.iter().any(|name| name == table.name()));
                }
                let mut numbers = [0; 4];
                for ((table, loaded), numbers) in
                    Table::BOTH.into_iter().zip(*loaded).zip(numbers.chunks_mut(2))
                {
                    if loaded {
                        let size = socket.size(table).ok()?;
                        numbers.copy_from_slice(&[size.entries.into(), size.bytes.into()]);
                    }
                }
                Some(Stamp(numbers))
            }
        }
    }
}
