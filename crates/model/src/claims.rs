//! Which service owns an address that several of them claim.
//!
//! The kernel maps hold one entry per address, port and protocol; two services may still name the same
//! external IP and port. The choice must not depend on the order of arrival.

use crate::{Address, Protocol, ServiceKey};

/// One service's wish to own a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub at: Address,
    pub protocol: Protocol,
}

/// All claims of one family, and who holds what.
#[derive(Debug, Default)]
pub struct Claims {
    _owner: Option<ServiceKey>,
}
