//! Asking for one flow.

use super::{Conntrack, ConntrackError, Flow, Tuple, sys};
use crate::IpFamily;

impl Conntrack {
    /// The flow whose answers look like this; `None` if there is no such flow, or no longer.
    pub fn find_by_reply(&mut self, protocol: u8, reply: &Tuple) -> Result<Option<Flow>, ConntrackError> {
        let header = sys::header(Some(IpFamily::of(reply.src)));
        let mut found = None;
        let asked = self.commands.ask(
            sys::CT_GET,
            &header,
            |message| reply.write(sys::TUPLE_REPLY, protocol, message),
            |message| found = Flow::read(message.payload).or(found),
        );
        match asked {
            Ok(()) => Ok(found),
            Err(refusal) if refusal.errno() == Some(libc::ENOENT) => Ok(None),
            Err(refusal) => Err(ConntrackError::from_refusal("looking for a flow", refusal)),
        }
    }
}
