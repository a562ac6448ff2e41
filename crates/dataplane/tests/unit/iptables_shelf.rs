//! Unit tests of `iptables/shelf`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use kernel::iptables::{Tables, ToolError};
use model::{Family, LocalDetector, ModeSettings, NodePlan, Protocol};

use super::*;
use crate::backend::{Backend, Setup};
use crate::inspection::{Inspected, Look};
use crate::iptables::Iptables;

/// Tables that take their time to be saved, and that hold one rule of ours in filter that nobody wrote, or none.
#[derive(Clone, Default)]
struct Slow(Arc<State>);

#[derive(Default)]
struct State {
    saves: AtomicU64,
    writes: AtomicU64,
    milliseconds: AtomicU64,
    strange: AtomicU64,
}

impl Slow {
    fn saves(&self) -> u64 {
        self.0.saves.load(Ordering::Relaxed)
    }

    fn write(&self, strange: u64) {
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        self.0.strange.store(strange, Ordering::Relaxed);
    }
}

impl Tables for Slow {
    fn save(&mut self, _: Table) -> Result<String, ToolError> {
        unreachable!("the sync thread saves nothing for a question")
    }

    fn saver(&self) -> Option<Saver> {
        let state = self.0.clone();
        Some(Box::new(move |table| {
            state.saves.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(state.milliseconds.load(Ordering::Relaxed)));
            let is_strange = table == Table::Filter && state.strange.load(Ordering::Relaxed) > 0;
            let rule = "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DROP\n";
            Ok(format!("*{}\n{}COMMIT\n", table.name(), if is_strange { rule } else { "" }))
        }))
    }

    fn outline(&mut self, _: Table, _: &[(&str, &str)]) -> Result<String, ToolError> {
        unreachable!()
    }

    fn restore(&mut self, _: &str) -> Result<(), ToolError> {
        unreachable!()
    }

    fn stamp(&mut self) -> Option<Stamp> {
        Some(Stamp([self.0.writes.load(Ordering::Relaxed), 0, 0, 0]))
    }

    fn has_random_fully(&self) -> bool {
        false
    }
}

fn backend(milliseconds: u64) -> (Slow, Iptables<Slow>) {
    let tables = Slow::default();
    tables.0.milliseconds.store(milliseconds, Ordering::Relaxed);
    let setup = Setup {
        detector: LocalDetector::None,
        masquerade_mark: 1 << 14,
        drop_invalid: true,
        of_mode: ModeSettings::default(),
    };
    (tables.clone(), Iptables::new([Some(tables), None], &setup))
}

fn look(backend: &mut Iptables<Slow>, port: u16) -> Look {
    let to = SocketAddr::new([10, 96, 0, 1].into(), port);
    let node = NodePlan::default();
    let inspected =
        Inspected { protocol: Protocol::Tcp, to, owner: None, is_live: false, client: None, node: &node };
    backend.inspect(Family::V4, &inspected)
}

#[test]
fn looks_share_the_tables_that_were_saved_for_the_first_of_them() {
    let (tables, mut backend) = backend(20);
    let looks: Vec<Look> = (0..16).map(|port| look(&mut backend, 80 + port)).collect();
    looks.into_iter().for_each(|look| assert!(look.finish().unwrap().differences.is_empty()));
    assert_eq!(tables.saves(), 2, "filter and nat, each once");
    // A write elsewhere does not matter to what is as it should be.
    tables.write(0);
    assert!(look(&mut backend, 80).finish().unwrap().differences.is_empty());
    assert_eq!(tables.saves(), 2);
}

#[test]
fn tables_from_before_a_write_show_no_difference_that_may_be_gone() {
    let (tables, mut backend) = backend(80);
    tables.write(1);
    assert_eq!(look(&mut backend, 80).finish().unwrap().differences.len(), 1);
    assert_eq!(look(&mut backend, 80).finish().unwrap().differences.len(), 1, "nobody wrote meanwhile");
    assert_eq!(tables.saves(), 2);
    tables.write(0);
    let error = look(&mut backend, 80).finish().unwrap_err().to_string();
    assert!(error.contains("they changed since they were saved 0 s ago; ask again in "), "{error}");
    assert_eq!(tables.saves(), 2);
}

#[test]
fn small_tables_are_soon_saved_again() {
    let (tables, mut backend) = backend(0);
    tables.write(1);
    assert_eq!(look(&mut backend, 80).finish().unwrap().differences.len(), 1);
    tables.write(0);
    assert!(look(&mut backend, 80).finish().unwrap().differences.is_empty());
    assert_eq!(tables.saves(), 4);
}

#[test]
fn what_is_old_is_given_back() {
    let (_, mut backend) = backend(1);
    look(&mut backend, 80).finish().unwrap();
    let shelf = backend.families[0].shelf.clone();
    std::thread::sleep(shelf.kept().as_ref().unwrap().until.saturating_duration_since(Instant::now()));
    assert!(shelf.kept().is_some());
    shelf.clear_old();
    assert!(shelf.kept().is_none());
}
