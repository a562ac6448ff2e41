//! A packet's way through nf_tables and IPVS together.
//!
//! IPVS takes requests on input at priority 99 and on output at -98. A packet that it sends elsewhere passes all of
//! output without NAT (that was decided before), then postrouting; one for the machine itself stays where it is.

use std::ops::RangeInclusive;

use ipnet::IpNet;
use kernel::ipvs::VirtualServer;

use super::{Choice, Simulator};
use crate::nft;
use crate::nft::walk::ALL;
use crate::way::{Arrived, Ended, Hooks, Way};
use crate::{HookPoint, Origin, Outcome, Packet, Place, Rejection, TraceStep};

/// The priority at which IPVS takes requests on input.
const INPUT: i32 = 99;
const OUTPUT: i32 = -98;
/// What stands for IPVS among the chains of a trace.
const NAME: &str = "ipvs";

/// What besides its addresses makes a packet the machine's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Prefixes with a local route.
    pub local: Vec<IpNet>,
    /// Packets that arrive with one of these mark bits are the machine's, whatever their destination; 0 for none.
    pub mark: u32,
}

/// A machine with rules and virtual servers: what [`crate::walk`] sends packets through.
#[derive(Debug)]
pub struct Node<'a> {
    pub routing: &'a Routing,
    pub nft: &'a mut nft::Simulator,
    pub ipvs: &'a mut Simulator,
}

impl Hooks for Node<'_> {
    fn hook(&mut self, way: &mut Way<'_>, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        self.nft.hook(way, hook, interface)
    }

    fn route(&mut self, way: &mut Way<'_>) -> Arrived {
        let origin = way.packet.origin.clone();
        let mut passage = Passage { node: self, way, taken: false };
        match origin {
            Origin::Interface(interface) => passage.arrive(&interface),
            Origin::Host => passage.begin(),
        }
    }
}

struct Passage<'p, 'n, 'w> {
    node: &'p mut Node<'n>,
    way: &'p mut Way<'w>,
    /// IPVS sees no packet twice.
    taken: bool,
}

/// What became of a packet at IPVS.
enum Offered {
    NotTaken,
    /// Its new destination is the machine itself.
    Stays,
    Leaves,
}

impl Passage<'_, '_, '_> {
    fn arrive(&mut self, interface: &str) -> Arrived {
        self.hook(HookPoint::Prerouting, interface)?;
        if self.is_local() || self.way.packet.mark & self.node.routing.mark != 0 {
            return self.input(interface);
        }
        self.hook(HookPoint::Forward, interface)?;
        self.leave(interface)
    }

    fn input(&mut self, interface: &str) -> Arrived {
        self.before_nat(HookPoint::Input, interface, i32::MIN..=INPUT - 1)?;
        if let Offered::Leaves = self.offer(HookPoint::Input)? {
            self.output_again()?;
            return self.leave(interface);
        }
        self.before_nat(HookPoint::Input, interface, INPUT..=i32::MAX)?;
        self.node.nft.nat(self.way, HookPoint::Input, interface)?;
        self.after_nat(HookPoint::Input, interface, ALL)?;
        self.way.flows.confirm(&mut self.way.flow);
        Ok((Outcome::Local(self.way.delivery()), HookPoint::Input))
    }

    /// What the machine itself sends. Marks do not make that local: a policy rule spares it, because it would catch
    /// look-ups of the reverse path, too.
    fn begin(&mut self) -> Arrived {
        self.way.loops = Some(self.is_local());
        self.before_nat(HookPoint::Output, "", ALL)?;
        self.node.nft.nat(self.way, HookPoint::Output, "")?;
        self.way.loops = Some(self.is_local());
        self.after_nat(HookPoint::Output, "", i32::MIN..=OUTPUT - 1)?;
        match self.offer(HookPoint::Output)? {
            Offered::Leaves => {
                self.output_again()?;
                return self.leave("");
            }
            // It keeps the route of the address that was called, which may lead out of the machine.
            Offered::Stays | Offered::NotTaken => {
                self.after_nat(HookPoint::Output, "", OUTPUT..=i32::MAX)?;
            }
        }
        let loops = self.way.loops.unwrap_or_else(|| self.is_local());
        let left = self.leave("")?;
        if loops { self.come_back() } else { Ok(left) }
    }

    /// Over the loopback interface.
    fn come_back(&mut self) -> Arrived {
        if self.taken {
            self.before_nat(HookPoint::Prerouting, "lo", ALL)?;
            self.after_nat(HookPoint::Prerouting, "lo", ALL)?;
        } else {
            self.hook(HookPoint::Prerouting, "lo")?;
        }
        self.input("lo")
    }

    fn output_again(&mut self) -> Result<(), Ended> {
        self.way.loops = Some(false);
        self.before_nat(HookPoint::Output, "", ALL)?;
        self.after_nat(HookPoint::Output, "", ALL)
    }

    fn leave(&mut self, interface: &str) -> Arrived {
        self.hook(HookPoint::Postrouting, interface)?;
        self.way.flows.confirm(&mut self.way.flow);
        Ok((Outcome::Delivered(self.way.delivery()), HookPoint::Postrouting))
    }

    fn hook(&mut self, hook: HookPoint, interface: &str) -> Result<(), Ended> {
        self.node.nft.hook(self.way, hook, interface)
    }

    fn before_nat(&mut self, hook: HookPoint, interface: &str, at: RangeInclusive<i32>) -> Result<(), Ended> {
        self.node.nft.before_nat(self.way, hook, interface, &at)
    }

    fn after_nat(&mut self, hook: HookPoint, interface: &str, at: RangeInclusive<i32>) -> Result<(), Ended> {
        self.node.nft.after_nat(self.way, hook, interface, &at)
    }

    fn is_local(&self) -> bool {
        let to = self.way.packet.destination;
        self.way.host.is_local(to) || self.node.routing.local.iter().any(|prefix| prefix.contains(&to))
    }

    fn offer(&mut self, hook: HookPoint) -> Result<Offered, Ended> {
        if self.taken {
            return Ok(Offered::NotTaken);
        }
        let ended = |outcome| Err((outcome, Place { hook, chain: Some(NAME.to_owned()) }));
        let packet = &mut self.way.packet;
        let first = !self.way.flow.is_replied();
        let to = match self.node.ipvs.take(called(packet), packet.source, packet.source_port, first) {
            Choice::NotTaken => return Ok(Offered::NotTaken),
            Choice::Refused => return ended(Outcome::Rejected(Rejection::PortUnreachable)),
            Choice::Vanished => return ended(Outcome::Dropped),
            Choice::To(to) => to,
        };
        self.taken = true;
        (packet.destination, packet.destination_port) = (to.address, to.port);
        self.way.trace.push(TraceStep { hook, chain: NAME.to_owned(), rule: 0, text: format!("to {to}") });
        if self.way.host.is_local(to.address) {
            return Ok(Offered::Stays);
        }
        // IPVS sends nothing from a loopback address to elsewhere.
        if packet.source.is_loopback() { ended(Outcome::Dropped) } else { Ok(Offered::Leaves) }
    }
}

/// The virtual server that a packet is for, if there is one.
fn called(packet: &Packet) -> VirtualServer {
    VirtualServer { address: packet.destination, protocol: packet.protocol, port: packet.destination_port }
}
