//! Damage by others is repaired, whatever it is, and told in the log; what the agent itself writes is no damage.

use std::time::{Duration, Instant};

use model::{Family, Protocol};
use serde_json::json;
use test_support::{Carrier, Case, ServiceManifest, let_pass, wait_until};

use super::churn::{assert_no_drift, crowd_member};
use super::places::{PORT, at_cluster_ip, cluster_ip};
use super::rig::every_mode;
use super::stage::{From, PROMPT, SOON, Stage, list};

/// Enough for a tree, where a mode has such.
const CROWD: u16 = 40;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = every_mode("damage to the rules is repaired", damage);
    cases.extend(every_mode("the agent's own changes are no damage", own_changes));
    cases
}

pub(crate) fn start(carrier: Carrier) -> Stage {
    let mut stage = Stage::of(carrier);
    let web = ServiceManifest::new("web", &Family::BOTH.map(|family| cluster_ip(1, family)))
        .with("type", "NodePort")
        .with("sessionAffinity", "ClientIP")
        .with("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 600}}))
        .port("main", Protocol::Tcp, PORT, 30080);
    stage.folder.put_service(&web);
    stage.put_endpoints("web", Protocol::Tcp, &["a", "c"]);
    stage.folder.put_service(&stage.service("plain", 2, Protocol::Tcp));
    stage.put_endpoints("plain", Protocol::Tcp, &["a", "b"]);
    stage.folder.put_service(&stage.service("empty", 3, Protocol::Tcp));
    let crowd = (0..CROWD).flat_map(|number| crowd_member(number, 80, number, 2));
    stage.folder.put("crowd", &list(crowd));
    stage.start_with(&[&[PROMPT], stage.rig().steady()].concat());
    stage
}

fn damage(carrier: Carrier) {
    let mut stage = start(carrier);
    let whole = stage.rules();
    let [v4, v6] = Family::BOTH.map(|family| stage.rig().damages(&stage, family));
    for (in_v4, in_v6) in v4.into_iter().zip(v6) {
        let what = in_v4.what;
        let started = Instant::now();
        let before = rewrites(&stage);
        (in_v4.inflict)(&stage);
        (in_v6.inflict)(&stage);
        stage.await_rules(&whole, &format!("{what}: never repaired"));
        println!("{}: repair after {what}: {:?}", carrier.name(), started.elapsed());
        stage.assert_answers(&[1, 2], what);
        // What comes between the agent's writing and its noting what it wrote is found by a rarer look.
        let done =
            wait_until(SOON, || rewrites(&stage).iter().zip(before).all(|(now, before)| *now > before));
        assert!(done, "{what}: repaired without a word\n{}", stage.log());
    }
    let log = stage.log();
    assert!(log.lines().any(|line| stage.rig().tells_of_damage(line)), "nothing in the log\n{log}");
    assert_eq!(stage.agent().probe("/healthz"), Some(200));
}

/// How often each family was rewritten and noted, by the log.
fn rewrites(stage: &Stage) -> [usize; 2] {
    let log = stage.log();
    ["IPv4", "IPv6"].map(|family| {
        let is_rewrite = |line: &&str| line.contains("full=true") && line.contains(family);
        log.lines().filter(is_rewrite).count()
    })
}

/// Changes, pins written by packets, sweeps of pins, restarts: none of it may look like a change by another process.
fn own_changes(carrier: Carrier) {
    let mut stage = start(carrier);
    for round in 0..stage.rig().rounds(30).max(12) {
        let pods: &[&str] =
            [&["a", "c"][..], &["b"], &["a", "b", "c", "d", "e"], &[]][usize::from(round) % 4];
        stage.put_endpoints("web", Protocol::Tcp, pods);
        stage.await_pools(1, pods);
        if !pods.is_empty() {
            stage.assert_answers(&[1], "between changes");
        }
    }
    // Where the agent looks by itself it does so twice meanwhile.
    let_pass(Duration::from_millis(2200));
    stage.restart(false);
    stage.put_endpoints("web", Protocol::Tcp, &["e"]);
    stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, Family::V4), "e");
    assert_no_drift(&stage);
}
