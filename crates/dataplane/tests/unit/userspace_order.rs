//! Unit tests of `userspace`: what comes before what.

use model::{
    Address, Destination, LocalDetector, Masquerade, PlannedEndpoint, PortPlan, Role, Routing, Verdict,
};
use simulate::nft::Simulator;

use super::*;

const SERVICE: ([u8; 4], u16) = ([10, 96, 0, 1], 80);

/// Clients may come as soon as it listens: rules of the last agent lead to it.
struct Door(Arc<Directory>);

impl Ground for Door {
    fn open(&mut self, _: Family) -> Result<[SocketAddr; 2], SyncError> {
        let found = self.0.find(Protocol::Tcp, SERVICE.into());
        assert!(found.is_some(), "a client would be reset: nobody knows its service");
        Ok([20_850, 20_851].map(|port| SocketAddr::from(([169, 254, 84, 85], port))))
    }

    fn is_intact(&mut self, _: Family) -> bool {
        true
    }

    fn configure(&mut self, _: &UserspaceSettings, _: u32) {}
}

fn userspace() -> Userspace<Simulator, Door> {
    let setup = Setup {
        detector: LocalDetector::None,
        masquerade_mark: 1 << 14,
        drop_invalid: true,
        of_mode: Default::default(),
    };
    let directory = Arc::<Directory>::default();
    Userspace::with(Simulator::new(), Door(directory.clone()), &setup, directory)
}

fn plan() -> ServicePlan {
    let at = Destination {
        at: Address::Vip(SERVICE.0.into(), SERVICE.1),
        role: Role::ClusterIp,
        routing: Routing::Same(Verdict::Forward(Pool::Cluster), Masquerade::Outsiders),
        allowed_sources: None,
    };
    let port = PortPlan {
        name: "".into(),
        protocol: Protocol::Tcp,
        affinity_seconds: None,
        cluster_pool: [PlannedEndpoint { ip: [10, 0, 0, 1].into(), port: 80, may_be_own_client: false }]
            .into(),
        local_pool: Box::default(),
        destinations: [at].into(),
    };
    ServicePlan { ports: [port].into_iter().collect(), ..ServicePlan::default() }
}

#[test]
fn services_are_known_before_anybody_can_call() {
    let (key, plan, node) = (ServiceKey::from("default/web"), plan(), NodePlan::default());
    let plans: HashMap<_, _> = [(key.clone(), plan.clone())].into();
    userspace().rewrite(Family::V4, &plans, &node).unwrap();

    let mut empty_at_first = userspace();
    empty_at_first.rewrite(Family::V4, &HashMap::new(), &node).unwrap();
    let change = Change { service: &key, old: None, new: Some(&plan) };
    empty_at_first.apply(Family::V4, &[change], (&node, &node)).unwrap();
}
