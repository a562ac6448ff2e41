//! Asking for one flow.

use super::{Conntrack, ConntrackError, Flow, Tuple, sys};
use crate::IpFamily;

impl Conntrack {
    /// The flow whose answers look like this; `None` if there is no such flow, or no longer.
    pub fn find_by_reply(&mut self, protocol: u8, reply: &Tuple) -> Result<Option<Flow>, ConntrackError> {
        self.find(sys::TUPLE_REPLY, protocol, reply)
    }

    /// The flow whose first packet looked like this, in the zone that the tuple names or in none.
    pub fn find_by_original(
        &mut self,
        protocol: u8,
        original: &Tuple,
    ) -> Result<Option<Flow>, ConntrackError> {
        self.find(sys::TUPLE_ORIG, protocol, original)
    }

    fn find(&mut self, kind: u16, protocol: u8, tuple: &Tuple) -> Result<Option<Flow>, ConntrackError> {
        let header = sys::header(Some(IpFamily::of(tuple.src)));
        let mut found = None;
        let asked = self.commands.ask(
            sys::CT_GET,
            &header,
            |message| tuple.write(kind, protocol, message),
            |message| found = Flow::read(message.payload).or(found),
        );
        match asked {
            Ok(()) => Ok(found),
            Err(refusal) if refusal.errno() == Some(libc::ENOENT) => Ok(None),
            Err(refusal) => Err(ConntrackError::from_refusal("looking for a flow", refusal)),
        }
    }
}
