//! Named counters of netfilter (nfnetlink_acct), which iptables rules count in by `-m nfacct`. Each network namespace
//! has its own; here it is that of the calling thread.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use crate::netlink::{DumpEnd, Exchange, Protocol, Refusal, attributes};

// linux/netfilter/nfnetlink_acct.h.
const NEW: u16 = (libc::NFNL_SUBSYS_ACCT as u16) << 8;
const GET: u16 = NEW | 1;
const DELETE: u16 = NEW | 3;
const NAME: u16 = 1;
const PACKETS: u16 = 2;
/// `struct nfgenmsg`, which every message begins with.
const HEADER: [u8; 4] = [libc::AF_UNSPEC as u8, libc::NFNETLINK_V0 as u8, 0, 0];
/// `NFACCT_NAME_MAX` with the NUL.
const LONGEST_NAME: usize = 31;
/// How often a listing is read again because counters were made or removed meanwhile.
const ATTEMPTS: usize = 10;

/// Make a counter. One that is there keeps its count.
pub fn ensure(name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no counter can be named {name:?}")));
    }
    let made = Exchange::open(Protocol::Netfilter)?
        .command(NEW, libc::NLM_F_CREATE, &HEADER, |message| message.string(NAME, name));
    match made {
        // Without a wish to replace it, one that exists is "busy".
        Err(refusal) if matches!(refusal.errno(), Some(libc::EBUSY | libc::EEXIST)) => Ok(()),
        other => other.map_err(explained),
    }
}

/// Remove a counter; that there is none is fine. One that a rule counts in cannot be removed.
pub fn remove(name: &str) -> io::Result<()> {
    let removed = Exchange::open(Protocol::Netfilter)?
        .command(DELETE, 0, &HEADER, |message| message.string(NAME, name));
    match removed {
        Err(refusal) if refusal.errno() == Some(libc::ENOENT) => Ok(()),
        other => other.map_err(explained),
    }
}

/// How many packets a counter has counted; `None` if there is no such counter.
pub fn packets(name: &str) -> io::Result<Option<u64>> {
    Ok(all()?.remove(name))
}

/// All counters with the packets that they have counted; there are a handful.
pub fn all() -> io::Result<HashMap<String, u64>> {
    for _ in 0..ATTEMPTS {
        let mut found = HashMap::new();
        let end = Exchange::open(Protocol::Netfilter)?.dump(
            GET,
            &HEADER,
            |_| {},
            |message| {
                let of = |kind| attributes(message.payload.get(HEADER.len()..)?).find(|one| one.kind == kind);
                let name = of(NAME).and_then(|one| one.text().map(str::to_owned));
                found.extend(name.zip(of(PACKETS).and_then(|one| one.be64())));
                ControlFlow::Continue(())
            },
        );
        if end.map_err(explained)? == DumpEnd::Complete {
            return Ok(found);
        }
    }
    Err(io::Error::other("the counters were changed while they were read"))
}

fn explained(refusal: Refusal) -> io::Error {
    match refusal.errno() {
        // What netfilter's netlink says for a part that is neither there nor can be loaded.
        Some(libc::EINVAL | libc::EOPNOTSUPP) => io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{refusal}: the kernel has no nfacct; load module nfnetlink_acct"),
        ),
        _ => refusal.error,
    }
}
