//! Make a table with a map in a network namespace of its own, read the map back, and delete the table again.
//!
//! `cargo run -p pointsman-kernel --example nft_map`, as root or, where user namespaces are allowed, as anybody.

use std::error::Error;

use kernel::netns::{self, Namespace};
use kernel::nft::{
    Base, Batch, Chain, Connection, ElementData, Expression, Hook, HookKind, MetaKey, Reg, Rule, Set,
    SetFlags, TableFamily, Transport, VERDICT,
};

/// `NF_INET_PRE_ROUTING`.
const PREROUTING: u32 = 0;

fn main() -> Result<(), Box<dyn Error>> {
    netns::acquire()?;
    let namespace = Namespace::new()?;
    // The connection belongs to the namespace it was opened in, wherever it is used.
    let mut connection = namespace.try_run(Connection::open)??;

    let batch = services();
    println!("one transaction of {} bytes", batch.len_bytes());
    connection.commit(&batch)?;
    println!("committed, generation {}", connection.generation()?);
    for table in connection.tables(TableFamily::Ip)? {
        println!("table ip {} ({})", table.name, table.comment);
    }
    print_map(&mut connection)?;

    // The kernel refuses the whole batch, and we say which part of it was wrong.
    let mut again = Batch::new(TableFamily::Ip, "demo");
    again.add_element("services", &key([10, 96, 0, 1], 80), ElementData::Goto("web-2"), None);
    if let Err(error) = connection.commit(&again) {
        println!("refused: {error}");
    }

    let mut end = Batch::new(TableFamily::Ip, "demo");
    end.delete_table_if_present();
    connection.commit(&end)?;
    println!("deleted, {} tables left", connection.tables(TableFamily::Ip)?.len());
    Ok(())
}

/// A verdict map from address, protocol and port to a chain, and the rule that looks into it.
fn services() -> Batch {
    let mut batch = Batch::new(TableFamily::Ip, "demo");
    batch.add_table("an example");
    batch.add_set(&Set {
        name: "services",
        // ipv4_addr . inet_proto . inet_service
        key_type: 7 << 12 | 12 << 6 | 13,
        key_length: 12,
        data: Some((VERDICT, 0)),
        flags: SetFlags::default(),
        size: 0,
        user_data: &[],
    });
    for name in ["web-1", "web-2"] {
        batch.add_chain(&Chain { name, hook: None });
    }
    let hook = Hook { kind: HookKind::Filter, number: PREROUTING, priority: 0 };
    batch.add_chain(&Chain { name: "entry", hook: Some(hook) });
    batch.add_rule(&Rule {
        chain: "entry",
        expressions: vec![
            Expression::Payload { base: Base::Network, offset: 16, length: 4, to: Reg(8) },
            Expression::Meta { key: MetaKey::L4Proto, to: Reg(9) },
            Expression::Payload { base: Base::Transport, offset: 2, length: 2, to: Reg(10) },
            Expression::Lookup { set: "services", key: Reg(8), to: Some(Reg(0)), invert: false },
        ],
    });
    for last in 1..=3 {
        let comment = format!("default/web-{last}");
        let data = ElementData::Goto("web-1");
        batch.add_element("services", &key([10, 96, 0, last], 80), data, Some(&comment));
    }
    batch
}

/// `address . tcp . port`, each part padded to four bytes.
fn key(address: [u8; 4], port: u16) -> Vec<u8> {
    [&address[..], &[6, 0, 0, 0], &port.to_be_bytes(), &[0, 0]].concat()
}

fn print_map(connection: &mut Connection) -> Result<(), kernel::nft::Error> {
    connection.dump_elements(TableFamily::Ip, "demo", "services", &mut |element| {
        println!("  {:02x?} : {:?}  # {}", element.key, element.data, element.comment.unwrap_or_default());
    })
}
