//! Batches with anything in them, right or wrong: written apart from the crate's encoder, in raw numbers.

use kernel::netlink::Writer;

use super::part::Part;

pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;
pub(crate) const EXCL: u16 = 0x200;

pub(crate) const INTERVAL: u32 = 4;
pub(crate) const TIMEOUT: u32 = 16;
pub(crate) const DYNAMIC: u32 = 32;
const MAP: u32 = 8;
const OBJECTS: u32 = 64;

pub(crate) const TABLE: &str = "agree";

/// What a map's elements hold.
#[derive(Clone, Copy)]
pub(crate) enum Data<'a> {
    None,
    Value(&'a [u8]),
    Goto(&'a str),
    Jump(&'a str),
    Accept,
    Counter(&'a str),
}

/// What a set's declaration says of its data.
#[derive(Clone, Copy)]
pub(crate) enum Holds {
    Nothing,
    Verdicts,
    Values(u32),
    /// Objects of this kind; 1: counters.
    Objects(u32),
}

pub(crate) struct Wire {
    writer: Writer,
    sequence: u32,
}

impl Wire {
    pub(crate) fn new() -> Wire {
        let mut wire = Wire { writer: Writer::default(), sequence: 0 };
        wire.frame(16, &[0, 0, 0, 10], 0, |_| {});
        wire
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.frame(17, &[0, 0, 0, 10], 0, |_| {});
        self.writer.bytes().to_vec()
    }

    fn frame(&mut self, kind: u16, header: &[u8], flags: u16, body: impl FnOnce(&mut Writer)) {
        self.sequence += 1;
        let start = self.writer.begin(kind, 1 | flags, self.sequence, header);
        body(&mut self.writer);
        self.writer.end(start);
    }

    pub(crate) fn message(&mut self, kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) -> &mut Wire {
        self.frame(10 << 8 | kind, &[2, 0, 0, 0], flags, body);
        self
    }

    pub(crate) fn table(&mut self) -> &mut Wire {
        self.table_with(CREATE)
    }

    pub(crate) fn table_with(&mut self, flags: u16) -> &mut Wire {
        self.message(0, flags, |w| w.string(1, TABLE))
    }

    pub(crate) fn delete_table(&mut self, name: &str) -> &mut Wire {
        self.message(2, 0, |w| w.string(1, name))
    }

    pub(crate) fn chain(&mut self, name: &str) -> &mut Wire {
        self.chain_with(name, CREATE)
    }

    pub(crate) fn chain_with(&mut self, name: &str, flags: u16) -> &mut Wire {
        self.message(3, flags, |w| {
            w.string(1, TABLE);
            w.string(3, name);
        })
    }

    pub(crate) fn base(&mut self, name: &str, kind: &str, hook: u32, priority: i32) -> &mut Wire {
        self.message(3, CREATE, |w| {
            w.string(1, TABLE);
            w.string(3, name);
            let nest = w.nest(4);
            w.be32(1, hook);
            w.be32(2, priority as u32);
            w.end_nest(nest);
            w.string(7, kind);
        })
    }

    pub(crate) fn delete_chain(&mut self, name: &str) -> &mut Wire {
        self.message(5, 0, |w| {
            w.string(1, TABLE);
            w.string(3, name);
        })
    }

    pub(crate) fn rule(&mut self, chain: &str, rule: &[Part<'_>]) -> &mut Wire {
        self.rule_with(chain, CREATE | APPEND, rule)
    }

    pub(crate) fn rule_with(&mut self, chain: &str, flags: u16, rule: &[Part<'_>]) -> &mut Wire {
        self.message(6, flags, |w| {
            w.string(1, TABLE);
            w.string(2, chain);
            let list = w.nest(4);
            for part in rule {
                part.write(w);
            }
            w.end_nest(list);
        })
    }

    pub(crate) fn delete_rules(&mut self, chain: Option<&str>, handle: Option<u64>) -> &mut Wire {
        self.message(8, 0, |w| {
            w.string(1, TABLE);
            chain.into_iter().for_each(|chain| w.string(2, chain));
            handle.into_iter().for_each(|handle| w.be64(3, handle));
        })
    }

    pub(crate) fn set(&mut self, name: &str, key: u32, flags: u32, holds: Holds) -> &mut Wire {
        self.set_with(name, key, flags, holds, 0, CREATE)
    }

    pub(crate) fn set_with(
        &mut self,
        name: &str,
        key: u32,
        flags: u32,
        holds: Holds,
        size: u32,
        message: u16,
    ) -> &mut Wire {
        let map = match holds {
            Holds::Nothing => 0,
            Holds::Verdicts | Holds::Values(_) => MAP,
            Holds::Objects(_) => OBJECTS,
        };
        self.message(9, message, |w| {
            w.string(1, TABLE);
            w.string(2, name);
            w.be32(3, flags | map);
            w.be32(4, 0);
            w.be32(5, key);
            match holds {
                Holds::Nothing | Holds::Objects(0) => {}
                Holds::Objects(kind) => w.be32(15, kind),
                Holds::Verdicts => w.be32(6, 0xffff_ff00),
                Holds::Values(length) => {
                    w.be32(6, 0);
                    w.be32(7, length);
                }
            }
            if size != 0 {
                let nest = w.nest(9);
                w.be32(1, size);
                w.end_nest(nest);
            }
            w.be32(10, 1);
        })
    }

    pub(crate) fn delete_set(&mut self, name: &str) -> &mut Wire {
        self.message(11, 0, |w| {
            w.string(1, TABLE);
            w.string(2, name);
        })
    }

    pub(crate) fn add(&mut self, set: &str, key: &[u8], data: Data<'_>) -> &mut Wire {
        self.element(12, CREATE, set, key, data, 0, None)
    }

    pub(crate) fn delete(&mut self, set: &str, key: &[u8]) -> &mut Wire {
        self.element(14, 0, set, key, Data::None, 0, None)
    }

    pub(crate) fn destroy(&mut self, set: &str, key: &[u8]) -> &mut Wire {
        self.element(30, 0, set, key, Data::None, 0, None)
    }

    pub(crate) fn destroy_named(&mut self, kind: u16, attribute: u16, name: &str) -> &mut Wire {
        self.message(kind, 0, |w| {
            w.string(1, TABLE);
            w.string(attribute, name);
        })
    }

    pub(crate) fn flush(&mut self, set: &str) -> &mut Wire {
        self.message(14, 0, |w| {
            w.string(1, TABLE);
            w.string(2, set);
        })
    }

    pub(crate) fn counter(&mut self, name: &str) -> &mut Wire {
        self.object(18, CREATE, name, 1)
    }

    pub(crate) fn delete_counter(&mut self, name: &str) -> &mut Wire {
        self.object(20, 0, name, 1)
    }

    pub(crate) fn object(&mut self, kind: u16, flags: u16, name: &str, object: u32) -> &mut Wire {
        self.message(kind, flags, |w| {
            w.string(1, TABLE);
            w.string(2, name);
            w.be32(3, object);
            let data = w.nest(4);
            w.end_nest(data);
        })
    }

    /// The end of an interval.
    pub(crate) fn add_end(&mut self, set: &str, key: &[u8]) -> &mut Wire {
        self.element(12, CREATE, set, key, Data::None, 1, None)
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn element(
        &mut self,
        kind: u16,
        message: u16,
        set: &str,
        key: &[u8],
        data: Data<'_>,
        flags: u32,
        timeout: Option<u64>,
    ) -> &mut Wire {
        self.message(kind, message, |w| {
            w.string(1, TABLE);
            w.string(2, set);
            let list = w.nest(3);
            let one = w.nest(1);
            value(w, 1, key);
            write_data(w, 2, data);
            if flags != 0 {
                w.be32(3, flags);
            }
            timeout.into_iter().for_each(|timeout| w.be64(4, timeout));
            w.end_nest(one);
            w.end_nest(list);
        })
    }
}

pub(crate) fn value(w: &mut Writer, kind: u16, bytes: &[u8]) {
    let nest = w.nest(kind);
    w.attribute(1, bytes);
    w.end_nest(nest);
}

pub(crate) fn write_data(w: &mut Writer, kind: u16, data: Data<'_>) {
    let (code, chain) = match data {
        Data::None => return,
        Data::Value(bytes) => return value(w, kind, bytes),
        Data::Counter(name) => return w.string(9, name),
        Data::Accept => (1_i32, None),
        Data::Jump(chain) => (-3, Some(chain)),
        Data::Goto(chain) => (-4, Some(chain)),
    };
    let outer = w.nest(kind);
    let inner = w.nest(2);
    w.be32(1, code as u32);
    chain.into_iter().for_each(|chain| w.string(2, chain));
    w.end_nest(inner);
    w.end_nest(outer);
}
