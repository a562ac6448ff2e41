//! Tables are saved by another thread while rules are written: what is written meanwhile is no difference, and damage
//! elsewhere is one.

use std::sync::{Arc, Mutex, MutexGuard};

use dataplane::{Inquiry, Inspection, Look};
use kernel::iptables::{Saver, Stamp, Tables, ToolError};
use model::{Client, Protocol};

use super::*;
use crate::common::{ip, node, service};

/// Tables whose stamp does not tell of rules that are replaced by as many, as those of legacy tables.
#[derive(Clone)]
struct Shared(Arc<Mutex<Simulator>>);

impl Shared {
    fn tables(&self) -> MutexGuard<'_, Simulator> {
        self.0.lock().unwrap()
    }

    /// Empty the chain that the rule with this comment leads to.
    fn empty_chain(&self, comment: &str) {
        let mut tables = self.tables();
        let chain = chain_of(&tables, Table::Nat, comment);
        tables.run(Table::Nat, &format!("-F {chain}")).unwrap();
    }
}

impl Tables for Shared {
    fn save(&mut self, table: Table) -> Result<String, ToolError> {
        self.tables().save(table)
    }

    fn saver(&self) -> Option<Saver> {
        let shared = self.clone();
        Some(Box::new(move |table| shared.tables().save(table)))
    }

    fn outline(&mut self, table: Table, rules: &[(&str, &str)]) -> Result<String, ToolError> {
        self.tables().outline(table, rules)
    }

    fn restore(&mut self, script: &str) -> Result<(), ToolError> {
        self.tables().restore(script)
    }

    fn stamp(&mut self) -> Option<Stamp> {
        Some(Stamp([1; 4]))
    }

    fn has_random_fully(&self) -> bool {
        false
    }
}

struct World {
    shared: Shared,
    reconciler: Reconciler<Iptables<Shared>>,
    fixture: Fixture,
}

const MANY: [(&str, &str); 1] = [("10.244.2.99", "there")];

impl World {
    fn new() -> World {
        let shared = Shared(Arc::new(Mutex::new(empty(Family::V4))));
        let reconciler = Reconciler::new(Iptables::new([Some(shared.clone()), None], &setup()));
        let mut world = World { shared, reconciler, fixture: Fixture::everything() };
        world.reconciler.sync(Family::V4, &[], &world.fixture).unwrap();
        world
    }

    /// Change the endpoints, and write that.
    fn change(&mut self, name: &str, endpoints: &[(&str, &'static str)]) {
        self.fixture.add(name, service(1), endpoints);
        self.reconciler.sync(Family::V4, &[name.into()], &self.fixture).unwrap();
    }

    fn diff(&mut self) -> Look {
        self.reconciler.inspect_all(Family::V4, None).unwrap()
    }

    fn explain(&mut self, to: &str) -> Look {
        let client = Client { ip: Some(ip("10.244.1.99")), is_node: false, is_pod: Some(true) };
        let inquiry = Inquiry::new(Protocol::Tcp, to.parse().unwrap(), vec![client]);
        self.reconciler.explain(&inquiry, &self.fixture, &node()).look.unwrap()
    }
}

fn found(look: Look) -> Inspection {
    look.finish().unwrap()
}

#[test]
fn what_is_written_while_tables_are_saved_is_no_difference() {
    // Chains that change, and chains that go.
    for endpoints in [&MANY[..], &[]] {
        let mut world = World::new();
        let look = world.diff();
        world.change("default/plain", endpoints);
        let meanwhile = found(look);
        assert_eq!(meanwhile.differences, [], "{endpoints:?}");
        assert!(meanwhile.unsettled > 0, "{endpoints:?}");
        let after = found(world.diff());
        assert_eq!((after.differences.as_slice(), after.unsettled), (&[][..], 0), "{endpoints:?}");
        // Chains that come.
        let look = world.diff();
        world.change("default/plain", &PODS);
        assert_eq!(found(look).differences, [], "{endpoints:?}");
    }
}

#[test]
fn damage_elsewhere_is_a_difference_all_the_same() {
    let mut world = World::new();
    world.shared.empty_chain("default/sticky:http cluster IP");
    let look = world.diff();
    world.change("default/plain", &MANY);
    let meanwhile = found(look);
    let services: Vec<_> = meanwhile.differences.iter().map(|one| one.service.as_deref()).collect();
    assert_eq!(services, [Some("default/sticky")], "{meanwhile:?}");
    assert!(meanwhile.unsettled > 0);
    // What was saved for an earlier question shows no difference from what was written since.
    world.change("default/plain", &PODS);
    let after = found(world.diff());
    assert_eq!((after.difference_count, after.unsettled), (1, 0), "{after:?}");
}

#[test]
fn an_address_that_is_written_meanwhile_does_not_differ() {
    let mut world = World::new();
    let look = world.explain("10.96.0.1:80");
    world.change("default/plain", &MANY);
    let meanwhile = found(look);
    assert_eq!(meanwhile.differences, []);
    assert!(meanwhile.unsettled > 0, "{meanwhile:?}");
    let after = found(world.explain("10.96.0.1:80"));
    assert!(after.compared > 0 && after.differences.is_empty() && after.unsettled == 0, "{after:?}");
}

#[test]
fn damage_at_an_address_is_a_difference_while_others_are_written() {
    let mut world = World::new();
    world.shared.empty_chain("default/sticky:http cluster IP");
    let look = world.explain("10.96.0.5:80");
    world.change("default/plain", &MANY);
    assert_eq!(found(look).difference_count, 1);
}
