//! Rules of others in shared chains and in their own: neither they nor their counters are touched, and their changes
//! are no business of ours.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use model::{Family, Protocol};
use test_support::{Carrier, Case, let_pass, patient};

use super::super::churn::assert_no_drift;
use super::super::stage::{PROMPT, Stage};
use super::both;

pub(crate) fn cases() -> Vec<Case<'static>> {
    let mut cases = both("rules of others and their counters are left alone", untouched);
    cases.extend(both("another process that writes all the time is no damage", busy_neighbour));
    cases
}

/// What a firewall, a network plugin and a kubelet have; no packet of the case meets a rule of it.
const FOREIGN: &str = "\
*nat
:CNI-HOSTPORT - [0:0]
:CNI-MASQ - [0:0]
[11:660] -A PREROUTING -p tcp -m tcp --dport 4001 -m comment --comment first -j CNI-HOSTPORT
[12:720] -A PREROUTING -p tcp -m tcp --dport 4002 -m comment --comment second -j CNI-HOSTPORT
[13:780] -A POSTROUTING -p udp -m udp --dport 4003 -j CNI-MASQ
[14:840] -A CNI-HOSTPORT -p tcp -m tcp --dport 4004 -j KUBE-MARK-MASQ
[15:900] -A CNI-MASQ -p udp -m udp --dport 4005 -j RETURN
COMMIT
*filter
:FIREWALL-IN - [0:0]
:KUBE-FIREWALL - [0:0]
[21:1260] -A INPUT -p tcp -m tcp --dport 4011 -m comment --comment \"two words\" -j DROP
[22:1320] -A INPUT -p tcp -m tcp --dport 4012 -j FIREWALL-IN
[23:1380] -A FORWARD -p tcp -m tcp --dport 4013 -j DROP
[24:1440] -A FIREWALL-IN -p tcp -m tcp --dport 4014 -j REJECT
[25:1500] -A KUBE-FIREWALL -p tcp -m tcp --dport 4015 -j DROP
COMMIT
*mangle
:OTHERS - [0:0]
[31:1860] -A PREROUTING -p tcp -m tcp --dport 4021 -j OTHERS
COMMIT
";

/// Rules of others with their counters, in order.
fn foreign(stage: &Stage, family: Family) -> Vec<String> {
    let text = stage.save(family, &["-c"]);
    let is_foreign = |line: &&str| (4001..=4021).any(|port| line.contains(&format!("--dport {port} ")));
    let chains = ["CNI-HOSTPORT", "CNI-MASQ", "FIREWALL-IN", "KUBE-FIREWALL", "OTHERS", "KUBE-IPTABLES-HINT"];
    let is_chain = |line: &&str| chains.iter().any(|chain| line.starts_with(&format!(":{chain} ")));
    text.lines().filter(|line| is_foreign(line) || is_chain(line)).map(str::to_owned).collect()
}

/// Packets that the policies of the kernel's own chains have decided about. The legacy tool restarts its counters with each
/// restore, whatever it restores.
fn policies(stage: &Stage, family: Family) -> BTreeMap<String, u64> {
    if stage.carrier == Carrier::IptablesLegacy {
        return BTreeMap::new();
    }
    let text = stage.save(family, &["-c", "-t", "filter"]);
    let counted = text.lines().filter_map(|line| {
        let (chain, rest) = line.strip_prefix(':')?.split_once(' ')?;
        let packets = rest.split_once('[')?.1.split_once(':')?.0.parse().ok()?;
        Some((chain.to_owned(), packets))
    });
    counted.filter(|(chain, _)| !chain.contains('-')).collect()
}

fn untouched(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    for family in Family::BOTH {
        let chain = "*nat\n:KUBE-MARK-MASQ - [0:0]\nCOMMIT\n";
        stage.restore(family, &format!("{chain}{FOREIGN}"));
    }
    let before = Family::BOTH.map(|family| foreign(&stage, family));
    assert!(before.iter().all(|lines| lines.len() > 15), "{before:?}");
    let mut counted = Family::BOTH.map(|family| policies(&stage, family));
    let mut assert_kept = |stage: &Stage, after: &str| {
        for family in Family::BOTH {
            assert_eq!(foreign(stage, family), before[family.index()], "{family} after {after}");
            let now = policies(stage, family);
            for (chain, packets) in &counted[family.index()] {
                assert!(
                    now[chain] >= *packets,
                    "{family} {chain} after {after}: {} of {packets}",
                    now[chain]
                );
            }
            counted[family.index()] = now;
        }
    };
    stage.folder.put_service(&stage.service("web", 1, Protocol::Tcp));
    stage.put_endpoints("web", Protocol::Tcp, &["a"]);
    stage.start_with(&[PROMPT, "--iptables-localhost-nodeports=true", "--nodeport-addresses=all"]);
    stage.assert_answers(&[1], "at the start");
    assert_kept(&stage, "the start");
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_pools(1, &["b"]);
    stage.assert_answers(&[1], "after a change");
    assert_kept(&stage, "a change");
    stage.folder.put_service(&stage.service("other", 2, Protocol::Tcp));
    stage.put_endpoints("other", Protocol::Tcp, &["a"]);
    stage.await_pools(2, &["a"]);
    stage.folder.remove("service-other");
    stage.await_pools(2, &[]);
    assert_kept(&stage, "a service that came and went");
    for family in Family::BOTH {
        stage.run(family, "-t nat -F KUBE-SERVICES");
    }
    stage.await_pools(1, &["b"]);
    stage.assert_answers(&[1], "after a repair");
    assert_kept(&stage, "a repair");
    for kill in [false, true] {
        stage.restart(kill);
        assert_kept(&stage, "a restart");
    }
}

/// Seconds of processor time that the agent and the tools that it ran have used.
fn processor_time(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after = stat.rsplit_once(") ").unwrap().1;
    let ticks: u64 = after.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

/// A rule each 100 ms, as some intrusion guards do it.
fn busy_neighbour(carrier: Carrier) {
    const ROUNDS: usize = 50;
    let mut stage = Stage::with_web(carrier, &["a", "b"], &[PROMPT]);
    Family::BOTH.iter().for_each(|family| drop(stage.run(*family, "-t filter -N GUARD")));
    let rewrites = |stage: &mut Stage| {
        ["IPv4", "IPv6"].map(|family| {
            let series = "kubeproxy_sync_full_proxy_rules_duration_seconds_count";
            stage.metric(&format!("{series}{{ip_family=\"{family}\"}}"))
        })
    };
    let written = rewrites(&mut stage);
    assert!(written.iter().all(Option::is_some), "no metric of full syncs");
    let process = stage.agent().process();
    let (spent, started) = (processor_time(process), Instant::now());
    for round in 0..ROUNDS {
        for family in Family::BOTH {
            stage.run(family, &format!("-t filter -A GUARD -p tcp --dport {} -j DROP", 1000 + round));
        }
        let due = Duration::from_millis(100) * (round as u32 + 1);
        let_pass(due.saturating_sub(started.elapsed()));
    }
    let share = (processor_time(process) - spent) / started.elapsed().as_secs_f64();
    println!("{}: a rule of others each 100 ms costs {:.1} % of a processor", carrier.name(), 100.0 * share);
    // Processor time, which other processes on the machine do not use up.
    let limit = patient(Duration::from_millis(250)).as_secs_f64();
    assert!(share < limit, "{share:.2} of a processor, at most {limit:.2}\n{}", stage.log());
    assert_eq!(rewrites(&mut stage), written, "rules were rewritten\n{}", stage.log());
    assert_no_drift(&stage);
    stage.assert_answers(&[1], "after all");
}
