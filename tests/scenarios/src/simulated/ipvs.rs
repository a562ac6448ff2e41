//! Mode ipvs over a simulated machine.

mod ground;
mod steps;

use dataplane::Setup;
use dataplane::ipvs::Ipvs;
use kernel::ipvs::{Batch, Command, Destination, Transport, VirtualServer};
use model::Family;
use simulate::ipvs::{Machine, SharedMachine};
use simulate::{Host, Journey, Packet};

use super::{Contents, MASQUERADE_MARK, Rules, Simulated, elements};
use crate::variant::SettingsVariant;
use crate::{Carrier, Dice};
use ground::SimulatedGround;
use steps::Steps;

/// Rules, virtual servers and routes are those of one machine.
pub type SimulatedIpvs = Ipvs<SharedMachine, SharedMachine, SimulatedGround<Steps>>;

/// Of the operations of a sync, one in so many is the last that goes well before one fails.
const LATEST_FAULT: u32 = 40;

impl Simulated for SimulatedIpvs {
    const CARRIER: Carrier = Carrier::Ipvs;
    const MARKS_APART: bool = true;

    fn new(variant: SettingsVariant) -> Self {
        let mut machine = Machine::default();
        // As the agent sets them.
        machine.ipvs.sysctls.expire_nodest_conn = true;
        machine.ipvs.sysctls.expire_quiescent_template = true;
        let machine = SharedMachine::new(machine);
        let setup = Setup {
            detector: variant.detector(),
            masquerade_mark: MASQUERADE_MARK,
            drop_invalid: true,
            of_mode: model::ModeSettings::default(),
        };
        let ground = SimulatedGround::new(machine.clone(), Steps::of(&machine));
        Ipvs::new(machine.clone(), machine, ground, &setup).count_refused(variant.counts_traffic())
    }

    fn rules(&mut self) -> Rules {
        self.ground().onlooker.begin();
        Rules::Ipvs(Box::new(self.servers().snapshot()))
    }

    fn contents(&mut self) -> Contents {
        let mut machine = self.servers().snapshot();
        let mut all = elements::elements(&mut machine.nft).unwrap();
        for found in machine.ipvs.services().unwrap() {
            let pool = machine.ipvs.destinations(found.server).unwrap();
            let mut lines: Vec<String> =
                pool.iter().map(|one| format!("{} weight {}", one.destination, one.weight)).collect();
            lines.sort();
            lines.push(format!("{:?}", found.settings));
            all.insert(format!("virtual server {}", found.server), lines);
        }
        for family in Family::BOTH {
            // They come with the first service and stay.
            let name = if family == Family::V4 { "Ip" } else { "Ip6" };
            if all.contains_key(&format!("{name} cluster-ips")) {
                let routes = machine.routing.local.iter().filter(|net| Family::of_net(net) == family);
                let mut lines: Vec<String> = routes.map(ToString::to_string).collect();
                lines.push(format!("mark {:#x}", machine.routing.mark));
                all.insert(format!("{name} local routes"), lines);
            }
        }
        all
    }

    fn walk(&mut self, host: &Host, packet: Packet, draw: &mut dyn FnMut(u32) -> u32) -> Journey {
        self.servers().machine().walk(host, packet, draw)
    }

    fn set_now(&mut self, milliseconds: u64) {
        self.servers().machine().set_now(milliseconds);
    }

    /// Anywhere in a sync: IPVS has no transactions.
    fn fail_next(&mut self, dice: &mut Dice) {
        self.servers().fail_after(dice.below(LATEST_FAULT) as usize);
    }

    /// A virtual server, a destination or a route goes or is changed, or one comes that nobody wants.
    fn damage(&mut self, family: Family, dice: &mut Dice) {
        let mut machine = self.servers().machine();
        if dice.chance(20) {
            machine.routing.local.retain(|net| Family::of_net(net) != family);
            return;
        }
        let servers = machine.ipvs.services().unwrap().into_iter().map(|found| found.server);
        let servers: Vec<VirtualServer> =
            servers.filter(|server| Family::of(server.address) == family).collect();
        if servers.is_empty() {
            return;
        }
        let server = dice.pick(&servers);
        let pool = machine.ipvs.destinations(server).unwrap();
        let mut batch = Batch::new();
        let stray = Destination { address: server.address, port: 9 };
        match dice.below(4) {
            0 => batch.push(Command::DeleteService(server)),
            1 => batch.push(Command::NewDestination(server, stray, 1)),
            // Of all destinations.
            kind => pool.iter().fold(0, |_, one| match kind {
                2 => batch.delete_destination(server, one.destination),
                _ => batch.set_destination(server, one.destination, 7),
            }),
        };
        Transport::commit(&mut machine.ipvs, &batch).unwrap();
    }

    fn between(&mut self, before: Rules) -> Vec<Rules> {
        drop(before);
        self.ground().onlooker.take()
    }

    fn end_connections(&mut self) {
        self.servers().machine().ipvs.end_all();
    }
}
