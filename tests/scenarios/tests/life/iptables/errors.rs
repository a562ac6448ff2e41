//! When the tools fail: clear words, the old rules stay, and it is tried again.

use std::fs::File;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use scenarios::{Carrier, Case, wait_until};

use super::super::confined::{confined, launcher};
use super::super::places::at_cluster_ip;
use super::super::stage::{From, PROMPT, SOON, at_load};
use super::fakes::Fakes;
use super::rig::{Rig, await_that};
use super::{both, one};

pub(crate) fn cases() -> Vec<Case<'static>> {
    let legacy = Carrier::IptablesLegacy;
    let mut cases = vec![one(legacy, "a held lock delays a change and nothing else", held_lock)];
    cases.extend(both("a restore that fails names the service, and is tried again", refused_line));
    cases.extend(both("a chain that another program uses does not stop the others", used_by_others));
    cases.push(Case::new("iptables: missing tools are reported", || confined(missing)));
    cases
}

fn held_lock(carrier: Carrier) {
    let mut rig = Rig::with_web(carrier, &["a"], &[PROMPT]);
    let lock = File::options().create(true).append(true).open(rig.folder.lock()).unwrap();
    lock.lock().unwrap();
    let locked = Instant::now();
    rig.put_endpoints("web", Protocol::Tcp, &["b"]);
    rig.await_said("waited 5 s for the lock of the tables");
    for family in Family::BOTH {
        assert_eq!(rig.who(Protocol::Tcp, From::Guest, at_cluster_ip(1, family)), "a", "the old rules serve");
    }
    let asked = Instant::now();
    let ready = rig.agent().probe("/livez");
    assert!(
        asked.elapsed() < at_load(Duration::from_secs(1)),
        "probes wait for the lock: {:?}",
        asked.elapsed()
    );
    assert_eq!(ready, Some(200));
    assert!(wait_until(SOON, || locked.elapsed() > Duration::from_secs(7)));
    lock.unlock().unwrap();
    for family in Family::BOTH {
        rig.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), "b");
    }
    // An agent that is stopped does not wait for the lock either.
    lock.lock().unwrap();
    rig.put_endpoints("web", Protocol::Tcp, &["c"]);
    let node = rig.sandbox.node.try_clone().unwrap();
    let process = rig.agent().process();
    assert!(wait_until(SOON, || node.run(|| has_children(process))), "no tool waits for the lock");
    let asked = Instant::now();
    let status = rig.agent().stop().unwrap();
    let took = asked.elapsed();
    assert!(
        status.success() && took < at_load(Duration::from_secs(1)),
        "{status} after {took:?}\n{}",
        rig.log()
    );
}

fn has_children(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.any(|list| !list.trim().is_empty())
}

/// A line of one service that the tool does not take, in one family.
fn refused_line(carrier: Carrier) {
    let mut rig = Rig::new(carrier);
    let fakes = Fakes::that_refuse(&rig);
    for (name, number) in [("web", 1), ("bad", 2)] {
        rig.folder.put_service(&rig.service(name, number, Protocol::Tcp));
        rig.put_endpoints(name, Protocol::Tcp, &["a"]);
    }
    rig.start_by(&fakes.launcher(), &[PROMPT]).unwrap_or_else(|why| panic!("{why}"));
    rig.assert_answers(&[1, 2], "at the start");
    let [v4, v6] = Family::BOTH.map(|family| at_cluster_ip(2, family));
    fakes.refuse(Family::V4, &format!("to-destination {}", rig.address("d", Family::V4)));
    rig.put_endpoints("bad", Protocol::Tcp, &["d"]);
    let is_told = |log: &str| {
        log.lines()
            .any(|line| line.contains("default/bad") && line.contains("1.2.3.400") && line.contains("IPv4"))
    };
    assert!(wait_until(SOON, || is_told(&rig.log())), "not told\n{}", rig.log());
    rig.await_answer(Protocol::Tcp, From::Guest, v6, "d");
    assert_eq!(rig.who(Protocol::Tcp, From::Guest, v4), "a", "the old rules serve");
    rig.assert_answers(&[1], "while another service fails");
    // It goes on trying.
    let tries = |rig: &Rig| rig.log().lines().filter(|line| is_told(line)).count();
    let before = tries(&rig);
    assert!(wait_until(2 * SOON, || tries(&rig) > before), "tried once only\n{}", rig.log());
    fakes.refuse_nothing(Family::V4);
    assert!(
        wait_until(3 * SOON, || rig.tcp(From::Guest, v4).by() == Some("d")),
        "no recovery\n{}",
        rig.log()
    );
    assert!(wait_until(SOON, || rig.agent().probe("/healthz") == Some(200)));
}

/// A rule of another program that jumps to a chain of ours keeps that chain from being removed.
fn used_by_others(carrier: Carrier) {
    let rig = Rig::with_web(carrier, &["a"], &[PROMPT]);
    let mut chains = Vec::new();
    for family in Family::BOTH {
        let chain = rig.rules(family).service_chain(at_cluster_ip(1, family)).unwrap().to_owned();
        rig.run(family, "-t nat -N OTHERS");
        rig.run(family, &format!("-t nat -A OTHERS -j {chain}"));
        chains.push(chain);
    }
    rig.folder.remove("service-web");
    rig.folder.put_service(&rig.service("other", 2, Protocol::Tcp));
    rig.put_endpoints("other", Protocol::Tcp, &["b"]);
    for family in Family::BOTH {
        rig.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(2, family), "b");
        rig.await_pods(1, family, &[]);
    }
    for (family, chain) in Family::BOTH.into_iter().zip(&chains) {
        let left = || rig.rules(family).chain("nat", chain).len();
        assert!(await_that(SOON, || left() == 0), "{chain} is not emptied\n{}", rig.log());
        assert!(rig.rules(family).has_chain("nat", chain));
        assert_eq!(rig.rules(family).chain("nat", "OTHERS"), [format!("-j {chain}")]);
    }
    // Changes still get through.
    rig.put_endpoints("other", Protocol::Tcp, &["c"]);
    for family in Family::BOTH {
        rig.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(2, family), "c");
    }
}

fn missing() {
    let mut rig = Rig::new(Carrier::IptablesLegacy);
    let empty = rig.folder.path().join(".empty");
    std::fs::create_dir(&empty).unwrap();
    let over = format!("--over={}:/usr/sbin", empty.display());
    let why = rig.start_by(&launcher(&[&over]), &[]).unwrap_err();
    assert!(why.contains("exit status: 1"), "{why}");
    assert!(why.contains("not installed"), "{why}");
}
