//! The instructions of rules, right or wrong, in raw numbers.

use kernel::netlink::Writer;

use super::wire::{Data, value, write_data};

/// Instructions, by what their attributes say.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Payload { base: u32, offset: u32, length: u32, to: u32 },
    Compare { from: u32, value: &'a [u8] },
    Lookup { set: &'a str, from: u32, to: Option<u32>, invert: bool },
    Dynset { set: &'a str, op: u32, key: u32, data: Option<u32>, timeout: Option<u64> },
    Numgen { modulus: u32, to: u32 },
    Verdict(Data<'a>),
    Dnat { address: u32, port: Option<u32> },
    Masquerade,
    Reject,
    Ct { key: u32, direction: Option<u8>, to: u32 },
    SetMark { from: u32 },
    CountIn { map: &'a str, from: u32 },
    Named(&'a str),
}

impl Part<'_> {
    pub(crate) fn write(self, w: &mut Writer) {
        let one = w.nest(1);
        w.string(1, self.name());
        let data = w.nest(2);
        self.body(w);
        w.end_nest(data);
        w.end_nest(one);
    }

    fn name(&self) -> &str {
        match self {
            Part::Payload { .. } => "payload",
            Part::Compare { .. } => "cmp",
            Part::Lookup { .. } => "lookup",
            Part::Dynset { .. } => "dynset",
            Part::Numgen { .. } => "numgen",
            Part::Verdict(_) => "immediate",
            Part::Dnat { .. } => "nat",
            Part::Masquerade => "masq",
            Part::Reject => "reject",
            Part::Ct { .. } => "ct",
            Part::SetMark { .. } => "meta",
            Part::CountIn { .. } => "objref",
            Part::Named(name) => name,
        }
    }

    fn body(self, w: &mut Writer) {
        match self {
            Part::Payload { base, offset, length, to } => {
                w.be32(1, to);
                w.be32(2, base);
                w.be32(3, offset);
                w.be32(4, length);
            }
            Part::Compare { from, value: bytes } => {
                w.be32(1, from);
                w.be32(2, 0);
                value(w, 3, bytes);
            }
            Part::Lookup { set, from, to, invert } => {
                w.string(1, set);
                w.be32(2, from);
                to.into_iter().for_each(|to| w.be32(3, to));
                if invert {
                    w.be32(5, 1);
                }
            }
            Part::Dynset { set, op, key, data, timeout } => {
                w.string(1, set);
                w.be32(3, op);
                w.be32(4, key);
                data.into_iter().for_each(|data| w.be32(5, data));
                timeout.into_iter().for_each(|timeout| w.be64(6, timeout));
            }
            Part::Numgen { modulus, to } => {
                w.be32(1, to);
                w.be32(2, modulus);
                w.be32(3, 1);
            }
            Part::Verdict(data) => {
                w.be32(1, 0);
                write_data(w, 2, data);
            }
            Part::Dnat { address, port } => {
                w.be32(1, 1);
                w.be32(2, 2);
                w.be32(3, address);
                port.into_iter().for_each(|port| w.be32(5, port));
            }
            Part::Reject => {
                w.be32(1, 0);
                w.u8(2, 3);
            }
            Part::Ct { key, direction, to } => {
                w.be32(1, to);
                w.be32(2, key);
                direction.into_iter().for_each(|direction| w.u8(3, direction));
            }
            Part::SetMark { from } => {
                w.be32(2, 3);
                w.be32(3, from);
            }
            Part::CountIn { map, from } => {
                w.be32(3, from);
                w.string(4, map);
            }
            Part::Masquerade | Part::Named(_) => {}
        }
    }
}
