//! Settings of this mode alone, changed under a running agent.

use model::{Family, Protocol};
use test_support::{Carrier, Case, wait_until};

use super::super::churn::assert_no_drift;
use super::super::places::at_cluster_ip;
use super::super::reconfigure::{Configured, with_cidrs};
use super::super::stage::{From, SOON};
use super::super::traffic::Traffic;
use super::case;

pub(super) fn cases() -> Vec<Case<'static>> {
    vec![case("scheduler, timeouts, strictARP and excluded addresses change without losing a packet", live)]
}

fn live(carrier: Carrier) {
    let mut configured = Configured::start(carrier, &with_cidrs("ipvs: {syncPeriod: 1s}\n"));
    let pairs = Family::BOTH.map(|family| (From::Guest, at_cluster_ip(1, family)));
    let traffic = Traffic::start(&configured.stage, &pairs);
    let stage = &configured.stage;
    let body = |fields: &str| with_cidrs(&format!("ipvs: {{syncPeriod: 1s, {fields}}}\n"));

    configured.change(&body("scheduler: lc"), "ipvs.scheduler: ");
    for family in Family::BOTH {
        let line = || stage.server(at_cluster_ip(1, family)).line;
        let is_so = wait_until(SOON, || line().contains("-s lc"));
        assert!(is_so, "{}\n{}", line(), stage.log());
    }

    configured.change(
        &body("scheduler: lc, tcpTimeout: 700s, tcpFinTimeout: 70s, udpTimeout: 77s"),
        "ipvs.tcpTimeout: ",
    );
    let timeouts = || stage.ipvsadm("-L -n --timeout");
    assert!(wait_until(SOON, || timeouts().contains("700 70 77")), "{}\n{}", timeouts(), stage.log());

    let arp = || {
        let names = ["arp_ignore", "arp_announce"].map(|name| format!("net/ipv4/conf/all/{name}"));
        stage.sandbox.node.run(|| names.map(|name| kernel::sysctl::read(&name).unwrap()))
    };
    assert_eq!(arp(), ["0", "0"]);
    configured.change(&body("scheduler: lc, strictARP: true"), "ipvs.strictARP: false → true");
    assert!(wait_until(SOON, || arp() == ["1", "2"]), "{:?}\n{}", arp(), stage.log());

    configured.change(&body("scheduler: rr, excludeCIDRs: [10.96.0.200/31]"), "ipvs.excludeCIDRs: ");
    stage.ipvsadm("-A -t 10.96.0.200:80 -s rr -b flag-3");
    // A change of the cluster still gets through, and a rewrite leaves the excluded one alone.
    stage.put_endpoints("web", Protocol::Tcp, &["b"]);
    stage.await_pools(1, &["b"]);
    traffic.go_on(20);
    println!("{}: {} connections during changes of settings", carrier.name(), traffic.finish());
    assert_no_drift(stage);
    for family in Family::BOTH {
        (stage.rig().slight_damage(family).inflict)(stage);
    }
    stage.await_said("Rules are in place again");
    assert!(stage.ipvsadm("-S -n").contains("10.96.0.200:80"), "{}", stage.log());
    configured.assert_alive();
}
