//! Generic netlink: families have names, and the kernel says which number each has.

use super::{Exchange, Message, Refusal, attributes};

/// `struct genlmsghdr`, which every message begins with.
pub(crate) const HEADER: usize = 4;

// linux/genetlink.h.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const CONTROLLER_VERSION: u8 = 2;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

pub(crate) fn header(command: u8, version: u8) -> [u8; HEADER] {
    [command, version, 0, 0]
}

/// The number of a family. Asking loads its module if it can be loaded; `ENOENT` says that there is no such family.
pub(crate) fn resolve(exchange: &mut Exchange, name: &str) -> Result<u16, Refusal> {
    let mut found = None;
    exchange.ask(
        CONTROLLER,
        &header(GET_FAMILY, CONTROLLER_VERSION),
        |message| message.string(FAMILY_NAME, name),
        |message| found = found.or(read_family(message)),
    )?;
    found.ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOENT).into())
}

pub(crate) fn read_family(message: &Message<'_>) -> Option<u16> {
    attributes(message.payload.get(HEADER..)?).find(|one| one.kind == FAMILY_ID)?.u16()
}
