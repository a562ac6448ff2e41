//! When the tools fail: clear words, the old rules stay, and it is tried again.

use std::fs::File;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use test_support::{Carrier, Case, let_pass, wait_until};

use super::super::confined::{confined, launcher};
use super::super::places::at_cluster_ip;
use super::super::rig::in_mode;
use super::super::stage::{From, PROMPT, SOON, Stage};
use super::both;
use super::fakes::Fakes;

/// The tools wait for the lock for 5 s; what does not wait for them takes less on any machine.
const WITHOUT_LOCK: Duration = Duration::from_secs(4);

pub(crate) fn cases() -> Vec<Case<'static>> {
    let legacy = Carrier::IptablesLegacy;
    let mut cases = vec![in_mode(legacy, "a held lock delays a change and nothing else", held_lock)];
    cases.extend(both("a restore that fails names the service, and is tried again", refused_line));
    cases.extend(both("a chain that another program uses does not stop the others", used_by_others));
    cases.push(Case::new("iptables: missing tools are reported", || confined(missing)));
    cases
}

fn held_lock(carrier: Carrier) {
    let mut stage = Stage::with_web(carrier, &["a"], &[PROMPT]);
    let lock = File::options().create(true).append(true).open(stage.folder.lock()).unwrap();
    lock.lock().unwrap();
    let locked = Instant::now();
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_said("waited 5 s for the lock of the tables");
    for family in Family::BOTH {
        assert_eq!(
            stage.who(Protocol::Tcp, From::Guest, at_cluster_ip(1, family)),
            "a",
            "the old rules serve"
        );
    }
    let asked = Instant::now();
    assert_eq!(stage.agent().probe("/livez"), Some(200));
    assert!(asked.elapsed() < WITHOUT_LOCK, "probes wait for the lock: {:?}", asked.elapsed());
    let_pass(Duration::from_secs(7).saturating_sub(locked.elapsed()));
    lock.unlock().unwrap();
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(1, family), "b");
    }
    // An agent that is stopped does not wait for the lock either.
    lock.lock().unwrap();
    stage.put_endpoints("web", Protocol::Tcp, &["c"]);
    let node = stage.sandbox.node.try_clone().unwrap();
    let process = stage.agent().process();
    assert!(wait_until(SOON, || node.run(|| has_children(process))), "no tool waits for the lock");
    let asked = Instant::now();
    let status = stage.agent().stop().unwrap();
    let took = asked.elapsed();
    assert!(status.success() && took < WITHOUT_LOCK, "{status} after {took:?}\n{}", stage.log());
}

fn has_children(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.any(|list| !list.trim().is_empty())
}

/// A line of one service that the tool does not take, in one family.
fn refused_line(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    let fakes = Fakes::that_refuse(&stage);
    for (name, number) in [("web", 1), ("bad", 2)] {
        stage.folder.put_service(&stage.service(name, number, Protocol::Tcp));
        stage.put_endpoints(name, Protocol::Tcp, &["a"]);
    }
    stage.start_by(&fakes.launcher(), &[PROMPT]).unwrap_or_else(|why| panic!("{why}"));
    stage.assert_answers(&[1, 2], "at the start");
    let [v4, v6] = Family::BOTH.map(|family| at_cluster_ip(2, family));
    fakes.refuse(Family::V4, &format!("to-destination {}", stage.address("d", Family::V4)));
    stage.put_endpoints("bad", Protocol::Tcp, &["d"]);
    let is_told = |log: &str| {
        log.lines()
            .any(|line| line.contains("default/bad") && line.contains("1.2.3.400") && line.contains("IPv4"))
    };
    assert!(wait_until(SOON, || is_told(&stage.log())), "not told\n{}", stage.log());
    stage.await_answer(Protocol::Tcp, From::Guest, v6, "d");
    assert_eq!(stage.who(Protocol::Tcp, From::Guest, v4), "a", "the old rules serve");
    stage.assert_answers(&[1], "while another service fails");
    // It goes on trying.
    let tries = |stage: &Stage| stage.log().lines().filter(|line| is_told(line)).count();
    let before = tries(&stage);
    assert!(wait_until(2 * SOON, || tries(&stage) > before), "tried once only\n{}", stage.log());
    fakes.refuse_nothing(Family::V4);
    assert!(
        wait_until(3 * SOON, || stage.tcp(From::Guest, v4).by() == Some("d")),
        "no recovery\n{}",
        stage.log()
    );
    assert!(wait_until(SOON, || stage.agent().probe("/healthz") == Some(200)));
}

/// A rule of another program that jumps to a chain of ours keeps that chain from being removed.
fn used_by_others(carrier: Carrier) {
    let stage = Stage::with_web(carrier, &["a"], &[PROMPT]);
    let mut chains = Vec::new();
    for family in Family::BOTH {
        let chain = stage.tables(family).service_chain(at_cluster_ip(1, family)).unwrap().to_owned();
        stage.run(family, "-t nat -N OTHERS");
        stage.run(family, &format!("-t nat -A OTHERS -j {chain}"));
        chains.push(chain);
    }
    stage.folder.remove("service-web");
    stage.folder.put_service(&stage.service("other", 2, Protocol::Tcp));
    stage.put_endpoints("other", Protocol::Tcp, &["b"]);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(2, family), "b");
        stage.await_pool(1, family, &[]);
    }
    for (family, chain) in Family::BOTH.into_iter().zip(&chains) {
        let left = || stage.tables(family).chain("nat", chain).len();
        assert!(wait_until(SOON, || left() == 0), "{chain} is not emptied\n{}", stage.log());
        assert!(stage.tables(family).has_chain("nat", chain));
        assert_eq!(stage.tables(family).chain("nat", "OTHERS"), [format!("-j {chain}")]);
    }
    // Changes still get through.
    stage.put_endpoints("other", Protocol::Tcp, &["c"]);
    for family in Family::BOTH {
        stage.await_answer(Protocol::Tcp, From::Guest, at_cluster_ip(2, family), "c");
    }
}

fn missing() {
    let mut stage = Stage::of(Carrier::IptablesLegacy);
    let empty = stage.folder.path().join(".empty");
    std::fs::create_dir(&empty).unwrap();
    let over = format!("--over={}:/usr/sbin", empty.display());
    let why = stage.start_by(&launcher(&[&over]), &[]).unwrap_err();
    assert!(why.contains("exit status: 1"), "{why}");
    assert!(why.contains("not installed"), "{why}");
}
