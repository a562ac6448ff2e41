//! A rewrite in place (after a restart, a failure, damage) must not be felt by a packet that meets its commit.
//!
//! Such a packet goes on through the old rules but looks up what is valid after the commit. The moment is
//! short, so first packets come by the ten thousand: datagrams, each of a flow of its own.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::sysctl;
use model::{Family, Protocol};
use sandbox::Namespace;
use test_support::{Case, wait_until};

use super::super::case;
use super::super::churn::crowd_member;
use super::super::nft;
use super::super::places::at_cluster_ip;
use super::super::stage::{From, SOON, Stage, list};

const TIME: Duration = Duration::from_secs(10);
/// However long they take.
const LEAST: usize = 20;
/// The pause after a sync would leave time for few rewrites.
const NO_PAUSE: &str = "--iptables-min-sync-period=1ms";

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![case("a rewrite in place refuses no packet on its way", rewrites)]
}

fn rewrites() {
    let mut stage = Stage::new();
    stage.folder.put_service(&stage.service("stable", 1, Protocol::Udp));
    stage.put_endpoints("stable", Protocol::Udp, &["a", "b", "c"]);
    stage.folder.put("crowd", &list((0..100).flat_map(|number| crowd_member(number, 80, number, 3))));
    for pod in ["a", "b", "c"] {
        // An answer is not needed, and a refusal is a failure.
        let silence =
            "table inet silence { chain input { type filter hook input priority 0; udp dport 8080 drop; }; }";
        nft::load(&stage.sandbox.pod(pod).unwrap().namespace, silence);
    }
    // A source port is a new flow again soon after.
    stage.sandbox.node.run(|| sysctl::write("net/netfilter/nf_conntrack_udp_timeout", 1).unwrap());
    stage.start_with(&[NO_PAUSE]);
    let rains =
        Family::BOTH.map(|family| Rain::start(stage.namespace(From::Guest), at_cluster_ip(1, family)));
    let (started, before) = (Instant::now(), rewritten(&stage));
    while started.elapsed() < TIME || rewritten(&stage) <= before + LEAST {
        let so_far = rewritten(&stage);
        for family in ["ip", "ip6"] {
            // Unused by these packets, so that only the repair can be felt.
            nft::run(&stage.sandbox.node, &["flush", "set", family, nft::TABLE, "service-cidrs"]).unwrap();
        }
        assert!(wait_until(SOON, || rewritten(&stage) > so_far), "never repaired\n{}", stage.log());
    }
    let count = rewritten(&stage) - before;
    let (sent, refused) =
        rains.map(Rain::stop).iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{count} rewrites in place, {sent} first packets, {refused} refused");
    assert_eq!(refused, 0, "of {sent} first packets over {count} rewrites");
}

fn rewritten(stage: &Stage) -> usize {
    stage.log().matches("full=true").count()
}

/// Datagrams without end, each from a port of its own.
struct Rain {
    client: Namespace,
    family: Family,
    refused_before: u64,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Rain {
    fn start(client: &Namespace, to: SocketAddr) -> Rain {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let family = Family::of(to.ip());
        let (stopped, counter) = (stop.clone(), sent.clone());
        let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let rain = move || {
            while !stopped.load(Ordering::Relaxed) {
                UdpSocket::bind(from).and_then(|socket| socket.send_to(b"drop", to)).unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        let refused_before = refused(client, family);
        let thread = client.spawn("rain", rain).unwrap();
        Rain { client: client.try_clone().unwrap(), family, refused_before, stop, sent, thread }
    }

    /// How many were sent, and how many refused.
    fn stop(self) -> (usize, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        (self.sent.load(Ordering::Relaxed), refused(&self.client, self.family) - self.refused_before)
    }
}

/// The "unreachable" messages that the namespace has got.
fn refused(client: &Namespace, family: Family) -> u64 {
    let read =
        |file: &str| client.run(|| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap());
    let value = match family {
        Family::V4 => {
            let text = read("snmp");
            let mut lines = text.lines().filter(|line| line.starts_with("Icmp:"));
            let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
            let mut columns = names.split_whitespace().zip(values.split_whitespace());
            columns.find(|(name, _)| *name == "InDestUnreachs").unwrap().1.to_owned()
        }
        Family::V6 => {
            let text = read("snmp6");
            let line = text.lines().find(|line| line.starts_with("Icmp6InDestUnreachs")).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        }
    };
    value.parse().unwrap()
}
