//! The version of IP, for every part of the kernel that deals with both.

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    pub fn of(address: IpAddr) -> IpFamily {
        if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }
    }

    /// `AF_*`, in the width of netlink headers.
    pub(crate) fn number(self) -> u8 {
        match self {
            IpFamily::V4 => libc::AF_INET as u8,
            IpFamily::V6 => libc::AF_INET6 as u8,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<IpFamily> {
        [IpFamily::V4, IpFamily::V6].into_iter().find(|family| family.number() == number)
    }
}
