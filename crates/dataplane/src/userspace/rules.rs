//! What the table needs besides leading clients to the forwarder.

use std::net::IpAddr;

use kernel::nft::{Batch, VerdictCode};

use table::{Addition, TableSetup, rule};

/// The mark of packets to endpoints: a bit that masquerading does not use.
pub(super) fn own_mark(masquerade_mark: u32) -> u32 {
    const USUAL: u32 = 1 << 12;
    if masquerade_mark == USUAL { USUAL >> 1 } else { USUAL }
}

#[derive(Debug)]
pub(super) struct ForwarderRules {
    pub(super) mark: u32,
    /// Where the forwarder listens.
    pub(super) address: IpAddr,
}

impl Addition for ForwarderRules {
    fn comment(&self) -> &'static str {
        " with a forwarder"
    }

    fn declare(&self, setup: &TableSetup, batch: &mut Batch) {
        // An endpoint may have the address of a service: the forwarder must not be led to itself.
        rule(batch, "nat-output", setup.code().has_mark(self.mark).then(VerdictCode::Accept));
        // While no agent listens, new connections wait: their clients ask again after a second.
        let refusal = setup.code().comes_from(self.address).refusal_of_tcp();
        rule(batch, "filter-output", refusal.then(VerdictCode::Drop));
    }
}
