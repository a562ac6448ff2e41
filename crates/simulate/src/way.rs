//! A packet's way through a host: the hooks in the kernel's order, and the routing decision among them. What is on a
//! hook is for each simulator to say.

use crate::{Delivery, Flow, Flows, HookPoint, Host, Journey, Origin, Outcome, Packet, Place, TraceStep};

/// Rules that packets are sent through.
pub trait Hooks {
    /// Ask the rules on a hook, and change the packet and its connection as they say.
    #[doc(hidden)]
    fn hook(&mut self, way: &mut Way<'_>, hook: HookPoint, interface: &str) -> Result<(), Ended>;

    /// Send a packet from hook to hook, in an order of its own if something on them sends packets elsewhere.
    #[doc(hidden)]
    fn route(&mut self, way: &mut Way<'_>) -> Arrived
    where
        Self: Sized,
    {
        way.route(self)
    }
}

/// A packet under way.
#[doc(hidden)]
pub struct Way<'w> {
    pub(crate) host: &'w Host,
    pub(crate) flows: &'w mut Flows,
    /// As it is now; NAT changes it.
    pub(crate) packet: Packet,
    pub(crate) flow: Flow,
    pub(crate) draw: &'w mut dyn FnMut(u32) -> u32,
    pub(crate) trace: Vec<TraceStep>,
    /// Whether a packet that goes out goes to the loopback interface; `None` if its destination says.
    pub(crate) loops: Option<bool>,
}

/// What became of a packet, and the last hook it met.
pub(crate) type Arrived = Result<(Outcome, HookPoint), Ended>;

/// A packet that does not go on: what became of it, and where.
pub(crate) type Ended = (Outcome, Place);

/// Send the first packet of a connection through the host's rules. `draw` gives the random numbers: below the number it
/// is handed.
pub fn walk(
    rules: &mut impl Hooks,
    host: &Host,
    packet: Packet,
    draw: &mut dyn FnMut(u32) -> u32,
) -> Journey {
    walk_with(rules, host, &mut Flows::new(), packet, draw)
}

/// As [`walk`], with the connections the host knows already; one that gets through becomes known.
pub fn walk_with(
    rules: &mut impl Hooks,
    host: &Host,
    flows: &mut Flows,
    packet: Packet,
    draw: &mut dyn FnMut(u32) -> u32,
) -> Journey {
    let flow = flows.track(&packet);
    let mut way = Way { host, flows, packet, flow, draw, trace: Vec::new(), loops: None };
    let (outcome, ended) = match rules.route(&mut way) {
        Ok((outcome, hook)) => (outcome, Place { hook, chain: None }),
        Err((outcome, place)) => (outcome, place),
    };
    Journey { outcome, ended, trace: way.trace }
}

impl Way<'_> {
    fn route(&mut self, rules: &mut impl Hooks) -> Arrived {
        let Origin::Interface(interface) = self.packet.origin.clone() else {
            return self.route_own(rules);
        };
        rules.hook(self, HookPoint::Prerouting, &interface)?;
        if self.host.is_local(self.packet.destination) {
            return self.deliver(rules, &interface);
        }
        rules.hook(self, HookPoint::Forward, &interface)?;
        rules.hook(self, HookPoint::Postrouting, &interface)?;
        self.flows.confirm(&mut self.flow);
        Ok((Outcome::Delivered(self.delivery()), HookPoint::Postrouting))
    }

    /// What the host sends to itself goes out and comes in again over the loopback interface, as the same
    /// connection: still "new", but confirmed and with its NAT decided.
    fn route_own(&mut self, rules: &mut impl Hooks) -> Arrived {
        rules.hook(self, HookPoint::Output, "")?;
        rules.hook(self, HookPoint::Postrouting, "")?;
        self.flows.confirm(&mut self.flow);
        if !self.host.is_local(self.packet.destination) {
            return Ok((Outcome::Delivered(self.delivery()), HookPoint::Postrouting));
        }
        rules.hook(self, HookPoint::Prerouting, "lo")?;
        self.deliver(rules, "lo")
    }

    fn deliver(&mut self, rules: &mut impl Hooks, interface: &str) -> Arrived {
        rules.hook(self, HookPoint::Input, interface)?;
        self.flows.confirm(&mut self.flow);
        Ok((Outcome::Local(self.delivery()), HookPoint::Input))
    }

    pub(crate) fn delivery(&self) -> Delivery {
        Delivery {
            to: self.packet.destination,
            port: self.packet.destination_port,
            source: self.packet.source,
            masqueraded: self.flow.is_masqueraded(),
            mark: self.packet.mark,
        }
    }
}
