//! The end of the agent takes nothing away: its rules stay, and traffic goes on.

use model::{Family, Protocol};
use test_support::{Carrier, Case};

use super::places::at_cluster_ip;
use super::rig::every_mode;
use super::stage::{From, Stage};
use super::traffic::Traffic;

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("SIGTERM ends the agent and leaves the rules", terminate)
}

fn terminate(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.start();
    let before = stage.rules();
    let pairs = Family::BOTH.map(|family| (From::Guest, at_cluster_ip(1, family)));
    let traffic = Traffic::start(&stage, &pairs);
    let status = stage.agent().stop().unwrap();
    assert!(status.success(), "{status}\n{}", stage.log());
    // Where a process carries connections, new ones wait for the next one.
    if !carrier.is_a_process() {
        traffic.go_on(200);
        traffic.finish();
    }
    assert_eq!(before, stage.rules(), "the rules changed when the agent ended");
}
