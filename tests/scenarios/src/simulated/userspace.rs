//! Mode userspace over a simulated table, and a forwarder that is only asked where it would lead a client.

use std::net::SocketAddr;

use dataplane::userspace::{Ground, Leads, Userspace};
use dataplane::{Setup, SyncError};
use model::{Family, Protocol, UserspaceSettings};
use simulate::nft::Simulator;
use simulate::{Delivery, Host, Journey, Outcome, Packet};

use super::{Contents, ENOMEM, MASQUERADE_MARK, Rules, Simulated, elements};
use crate::variant::SettingsVariant;
use crate::{Carrier, Dice};

pub type SimulatedUserspace = Userspace<Simulator, SimulatedForwarder>;

/// Listens always at the same place.
#[derive(Debug)]
pub struct SimulatedForwarder;

impl Ground for SimulatedForwarder {
    fn open(&mut self, family: Family) -> Result<[SocketAddr; 2], SyncError> {
        Ok(doors(family))
    }

    fn is_intact(&mut self, _: Family) -> bool {
        true
    }

    fn configure(&mut self, _: &UserspaceSettings, _: u32) {}
}

fn doors(family: Family) -> [SocketAddr; 2] {
    let ip = match family {
        Family::V4 => [169, 254, 84, 85].into(),
        Family::V6 => std::net::Ipv6Addr::new(0xfdc7, 0x6b1e, 0x84f3, 0, 0, 0, 0, 0x55).into(),
    };
    [20_850, 20_851].map(|port| SocketAddr::new(ip, port))
}

impl Simulated for SimulatedUserspace {
    const CARRIER: Carrier = Carrier::Userspace;

    fn new(variant: SettingsVariant) -> Self {
        let setup = Setup {
            detector: variant.detector(),
            masquerade_mark: MASQUERADE_MARK,
            drop_invalid: true,
            of_mode: model::ModeSettings::default(),
        };
        Userspace::new(Simulator::new(), SimulatedForwarder, &setup)
    }

    fn rules(&mut self) -> Rules {
        let leads = self.leads();
        Rules::Userspace(Box::new((self.rules().clone(), leads)))
    }

    fn contents(&mut self) -> Contents {
        let mut all = elements::elements(self.rules()).unwrap();
        all.insert("forwarder".to_owned(), self.leads().describe());
        all
    }

    fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey {
        let leads = self.leads();
        walk(self.rules(), &leads, host, packet, draw)
    }

    fn set_now(&mut self, milliseconds: u64) {
        self.rules().set_now(milliseconds);
    }

    fn fail_next(&mut self, _: &mut Dice) {
        self.rules().fail_next(ENOMEM);
    }
}

/// Through the table to the forwarder, and from there to an endpoint.
pub(super) fn walk(
    rules: &mut Simulator,
    leads: &Leads,
    host: &Host,
    packet: Packet,
    draw: &mut dyn FnMut(u32) -> u32,
) -> Journey {
    let mut with_doors = host.clone();
    with_doors.addresses.extend(Family::BOTH.map(|family| doors(family)[0].ip()));
    let (client, to) = (packet.source, SocketAddr::new(packet.destination, packet.destination_port));
    let protocol = match packet.protocol {
        simulate::Protocol::Tcp => Protocol::Tcp,
        simulate::Protocol::Udp => Protocol::Udp,
        simulate::Protocol::Sctp => Protocol::Sctp,
    };
    let mut journey = simulate::walk(rules, &with_doors, packet, draw);
    if let Outcome::Local(delivery) = &journey.outcome
        && let Some(at) = leads.lead(protocol, SocketAddr::new(delivery.to, delivery.port), to, client)
    {
        let source = host.source_towards(at.ip()).unwrap_or(client);
        let (to, port, mark) = (at.ip(), at.port(), 0);
        let delivery = Delivery { to, port, source, masqueraded: true, mark };
        journey.outcome =
            if host.is_local(to) { Outcome::Local(delivery) } else { Outcome::Delivered(delivery) };
    }
    journey
}
