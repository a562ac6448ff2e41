//! Forgetting flows.

use std::ops::ControlFlow;

use super::{Conntrack, ConntrackError, Filter, Flow, sys};
use crate::netlink::Batch;

/// Victims held at a time while the table is being listed.
const HELD: usize = 2048;
/// Deletions sent together; if each is refused, the refusals must fit in a socket's default buffer.
const BATCH: usize = 128;

/// What became of a clean-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Flows of the family and protocol that were looked at.
    pub examined: u64,
    pub deleted: u64,
    /// Ended by themselves before we came to them.
    pub gone: u64,
    /// Handed to a flow table or to hardware; the kernel does not let go of those.
    pub busy: u64,
    /// `false` if the table changed so that flows may have been left out: the pass is worth repeating.
    pub complete: bool,
}

impl Conntrack {
    /// Delete exactly this flow, and say whether it was still there.
    pub fn delete(&mut self, flow: &Flow) -> Result<bool, ConntrackError> {
        let mut result = Deleted::default();
        self.delete_batch(std::slice::from_ref(flow), &mut result)?;
        Ok(result.deleted == 1)
    }

    /// Delete those of the flows that `filter` lets through which `stale` picks, while they are being listed.
    pub fn delete_where(
        &mut self,
        filter: &Filter,
        mut stale: impl FnMut(&Flow) -> bool,
    ) -> Result<Deleted, ConntrackError> {
        let mut victims = Vec::new();
        let mut result = Deleted::default();
        let mut failure = None;
        // The listing has its own socket, and goes on while flows are deleted over this one.
        let listed = Conntrack::dump(filter, |flow| {
            if stale(flow) {
                victims.push(*flow);
            }
            if victims.len() < HELD {
                return ControlFlow::Continue(());
            }
            match self.delete_all(&mut victims, &mut result) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        self.delete_all(&mut victims, &mut result)?;
        Ok(Deleted { examined: listed.examined, complete: listed.complete, ..result })
    }

    fn delete_all(&mut self, victims: &mut Vec<Flow>, result: &mut Deleted) -> Result<(), ConntrackError> {
        for batch in victims.chunks(BATCH) {
            self.delete_batch(batch, result)?;
        }
        victims.clear();
        Ok(())
    }

    fn delete_batch(&mut self, flows: &[Flow], result: &mut Deleted) -> Result<(), ConntrackError> {
        let mut batch = Batch::default();
        for (left, flow) in (0..flows.len()).rev().zip(flows) {
            self.append_delete(&mut batch, left == 0, flow);
        }
        let mut failed = 0;
        let sent = self.commands.send(&batch, |_, refusal| {
            failed += 1;
            match refusal.errno() {
                Some(libc::ENOENT) => result.gone += 1,
                Some(libc::EBUSY) => result.busy += 1,
                _ => return Err(refusal),
            }
            Ok(())
        });
        sent.map_err(|refusal| ConntrackError::from_refusal("deleting a flow", refusal))?;
        result.deleted += flows.len() as u64 - failed;
        Ok(())
    }

    /// The flow is found by its reply tuple, not the original one: a new flow of the same client to the same
    /// service that goes to another endpoint has another reply tuple. The id alone does not tell them apart,
    /// because the kernel makes it from the original tuple and the entry's place in memory, which is used again.
    fn append_delete(&mut self, batch: &mut Batch, last: bool, flow: &Flow) {
        let header = sys::header(Some(flow.family()));
        self.commands.append(batch, last, sys::CT_DELETE, 0, &header, |message| {
            flow.reply.write(sys::TUPLE_REPLY, flow.protocol, message);
            if flow.zone != 0 {
                message.be16(sys::ZONE, flow.zone);
            }
            message.be32(sys::ID, flow.id);
        })
    }
}
