//! Recording flows that no packet made: for tests and measurements.

use std::time::Duration;

use super::{Conntrack, ConntrackError, Flow, status, sys};
use crate::netlink::Batch;

const BATCH: usize = 128;

impl Conntrack {
    /// Record `flows`, each to last for `lifetime`. Their ids are the kernel's choice.
    pub fn insert(&mut self, flows: &[Flow], lifetime: Duration) -> Result<(), ConntrackError> {
        let refused = |refusal| ConntrackError::from_refusal("inserting a flow", refusal);
        for flows in flows.chunks(BATCH) {
            let mut batch = Batch::default();
            for (left, flow) in (0..flows.len()).rev().zip(flows) {
                self.append_insert(&mut batch, left == 0, flow, lifetime);
            }
            self.commands.send(&batch, |_, refusal| Err(refusal)).map_err(refused)?;
        }
        Ok(())
    }

    fn append_insert(&mut self, batch: &mut Batch, last: bool, flow: &Flow, lifetime: Duration) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let header = sys::header(Some(flow.family()));
        self.commands.append(batch, last, sys::CT_NEW, flags, &header, |message| {
            flow.original.write(sys::TUPLE_ORIG, flow.protocol, message);
            flow.reply.write(sys::TUPLE_REPLY, flow.protocol, message);
            // The kernel insists that what it inserts is called confirmed.
            message.be32(sys::STATUS, flow.status | status::CONFIRMED);
            message.be32(sys::TIMEOUT, u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX));
            if let Some(state) = flow.tcp_state {
                let info = message.nest(sys::PROTOINFO);
                let tcp = message.nest(sys::PROTOINFO_TCP);
                message.u8(sys::PROTOINFO_TCP_STATE, state);
                message.end_nest(tcp);
                message.end_nest(info);
            }
            if flow.zone != 0 {
                message.be16(sys::ZONE, flow.zone);
            }
            if flow.mark != 0 {
                message.be32(sys::MARK, flow.mark);
            }
        })
    }
}
