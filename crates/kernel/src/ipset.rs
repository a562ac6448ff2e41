//! Sets of the ipset tool, which iptables rules look into: their names, and their removal. Nothing here makes one. Each
//! network namespace has its own; here it is that of the calling thread.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::netlink::{DumpEnd, Exchange, Message, Protocol, Refusal, attributes};

// linux/netfilter/ipset/ip_set.h.
const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_IPSET as u16) << 8;
const DESTROY: u16 = SUBSYSTEM | 3;
const LIST: u16 = SUBSYSTEM | 7;
const PROTOCOL: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 6;
/// Names only, no elements.
const FLAG_LIST_NAMES: u32 = 2;
/// Understood by every kernel since 2.6.39.
const VERSION: u8 = 6;
/// What ipset says of a set that a rule or another set refers to.
const BUSY: i32 = 4100;
/// `struct nfgenmsg`; ipset wants a family where it looks at none.
const HEADER: [u8; 4] = [libc::AF_INET as u8, libc::NFNETLINK_V0 as u8, 0, 0];
/// How often a listing is read again because sets were made or removed meanwhile.
const ATTEMPTS: usize = 10;

/// The names of all sets; none if the kernel has no ipset, or has not loaded it.
pub fn names() -> io::Result<Vec<String>> {
    // To ask is to load the module, which would be a strange effect of looking for leftovers.
    if !Path::new("/sys/module/ip_set").exists() {
        return Ok(Vec::new());
    }
    for _ in 0..ATTEMPTS {
        let mut found = Vec::new();
        let end = Exchange::open(Protocol::Netfilter)?.dump(
            LIST,
            &HEADER,
            |message| {
                message.u8(PROTOCOL, VERSION);
                message.be32(FLAGS, FLAG_LIST_NAMES);
            },
            |message| {
                found.extend(read(message));
                ControlFlow::Continue(())
            },
        );
        match end {
            Ok(DumpEnd::Inconsistent) => {}
            Ok(_) => return Ok(found),
            Err(refusal) if is_absent(&refusal) => return Ok(Vec::new()),
            Err(refusal) => return Err(refusal.error),
        }
    }
    Err(io::Error::other("the sets of ipset were changed while they were listed"))
}

/// Remove a set; that there is none is fine. `ErrorKind::ResourceBusy` says that a rule or another set refers to it.
pub fn destroy(name: &str) -> io::Result<()> {
    let destroyed = Exchange::open(Protocol::Netfilter)?.command(DESTROY, 0, &HEADER, |message| {
        message.u8(PROTOCOL, VERSION);
        message.string(NAME, name);
    });
    match destroyed {
        Err(refusal) if refusal.errno() == Some(libc::ENOENT) || is_absent(&refusal) => Ok(()),
        Err(refusal) if refusal.errno() == Some(BUSY) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("set {name} is in use by an iptables rule or another set"),
        )),
        other => other.map_err(|refusal| refusal.error),
    }
}

/// What netfilter's netlink says for a part that is neither there nor can be loaded.
fn is_absent(refusal: &Refusal) -> bool {
    matches!(refusal.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

pub(crate) fn read(message: &Message<'_>) -> Option<String> {
    let name = attributes(message.payload.get(HEADER.len()..)?).find(|one| one.kind == NAME)?;
    name.text().map(str::to_owned)
}
