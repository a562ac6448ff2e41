//! Listing flows, one at a time.

use std::ops::ControlFlow;

use super::{ConntrackError, Flow, status, sys};
use crate::IpFamily;
use crate::netlink::{DumpEnd, Exchange, Protocol, Refusal, Writer};

/// Changes to the flow table of the network namespace of the thread that opened it; use it from there.
#[derive(Debug)]
pub struct Conntrack {
    pub(super) commands: Exchange,
}

/// Which flows to list; `None` means any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub family: Option<IpFamily>,
    /// `IPPROTO_*`.
    pub protocol: Option<u8>,
    /// Only flows that no answer has come for; kernels from 5.18 on pick them out themselves.
    pub unanswered: bool,
}

/// How far a listing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Flows that the filter let through.
    pub examined: u64,
    /// `false` if the caller stopped it, or the table changed so that flows may have been left out.
    pub complete: bool,
}

impl Filter {
    pub fn of(family: IpFamily, protocol: u8) -> Filter {
        Filter { family: Some(family), protocol: Some(protocol), unanswered: false }
    }

    pub(crate) fn accepts(&self, flow: &Flow) -> bool {
        self.family.is_none_or(|family| family == flow.family())
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && !(self.unanswered && flow.is_answered())
    }
}

impl Conntrack {
    pub fn open() -> Result<Conntrack, ConntrackError> {
        Ok(Conntrack { commands: exchange()? })
    }

    /// Hand over every flow of the calling thread's network namespace that `filter` lets through, until `each`
    /// breaks. Takes a socket of its own: one on which a listing was stopped half-way is of no further use.
    ///
    /// Nothing is kept: the kernel fills one buffer, and goes on when it has been read. A flow can appear
    /// twice if the table changes meanwhile.
    pub fn dump(
        filter: &Filter,
        mut each: impl FnMut(&Flow) -> ControlFlow<()>,
    ) -> Result<Listed, ConntrackError> {
        let mut examined = 0;
        let mut pass = |flow: &Flow| {
            examined += 1;
            each(flow)
        };
        let listed = match list(filter, true, &mut pass) {
            // Kernels from 5.8 on compare protocols themselves; some refuse a filter for both families.
            Err(Attempt::Refused(refusal)) if is_misunderstanding(&refusal) => list(filter, false, &mut pass),
            other => other,
        };
        match listed {
            Ok(end) => Ok(Listed { examined, complete: end == DumpEnd::Complete }),
            Err(Attempt::NotOpened(error)) => Err(error),
            Err(Attempt::Refused(refusal)) if is_misunderstanding(&refusal) => Err(ConntrackError::Absent),
            Err(Attempt::Refused(refusal)) => Err(ConntrackError::from_refusal("listing flows", refusal)),
        }
    }
}

enum Attempt {
    NotOpened(ConntrackError),
    Refused(Refusal),
}

/// nfnetlink answers EINVAL to a subsystem it does not have, and to a filter it does not like.
fn is_misunderstanding(refusal: &Refusal) -> bool {
    matches!(refusal.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

fn list(
    filter: &Filter,
    kernel_filters: bool,
    each: &mut impl FnMut(&Flow) -> ControlFlow<()>,
) -> Result<DumpEnd, Attempt> {
    let mut exchange = exchange().map_err(Attempt::NotOpened)?;
    let fill = |message: &mut Writer| {
        if let (true, Some(protocol)) = (kernel_filters, filter.protocol) {
            write_protocol(message, protocol);
            if filter.unanswered {
                message.be32(sys::STATUS, 0);
                message.be32(sys::STATUS_MASK, status::SEEN_REPLY);
            }
        }
    };
    let listed = exchange.dump(sys::CT_GET, &sys::header(filter.family), fill, |message| {
        match Flow::read(message.payload) {
            // Once more here: older kernels pass over a filter they do not know.
            Some(flow) if filter.accepts(&flow) => each(&flow),
            _ => ControlFlow::Continue(()),
        }
    });
    listed.map_err(Attempt::Refused)
}

fn write_protocol(message: &mut Writer, protocol: u8) {
    let tuple = message.nest(sys::TUPLE_ORIG);
    let inner = message.nest(sys::TUPLE_PROTO);
    message.u8(sys::PROTO_NUM, protocol);
    message.end_nest(inner);
    message.end_nest(tuple);
    let filter = message.nest(sys::FILTER);
    message.u32(sys::FILTER_ORIG_FLAGS, sys::FILTER_PROTO_NUM);
    message.u32(sys::FILTER_REPLY_FLAGS, 0);
    message.end_nest(filter);
}

fn exchange() -> Result<Exchange, ConntrackError> {
    Exchange::open(Protocol::Netfilter).map_err(|error| match error.raw_os_error() {
        Some(libc::EPROTONOSUPPORT) => ConntrackError::Absent,
        _ => ConntrackError::Socket(error),
    })
}
