//! What each mode reads, and what it takes from the section of another.

use model::{IpvsSettings, IpvsTimeouts, OnLoopback, Scheduler};

use super::*;

#[test]
fn mode_ipvs_has_settings_of_its_own() {
    let of = |body: &str| resolve(completed(with(body)), &SourceFlags::default()).unwrap().options;
    let options = of("mode: ipvs\n\
        ipvs: {scheduler: wlc, excludeCIDRs: [10.9.1.1/16, 'fd00:9::/64'], strictARP: true, tcpTimeout: 15m, \
        tcpFinTimeout: 1m1s, udpTimeout: 5m, syncPeriod: 45s, minSyncPeriod: 3s}\n\
        iptables: {masqueradeBit: 3, masqueradeAll: true, syncPeriod: 1m}\n");
    let wanted = IpvsSettings {
        scheduler: Scheduler::WeightedLeastConnection,
        exclude_cidrs: ["10.9.0.0/16", "fd00:9::/64"].map(|net| net.parse().unwrap()).into(),
        strict_arp: true,
        timeouts: IpvsTimeouts {
            tcp: Duration::from_secs(15 * 60),
            tcp_fin: Duration::from_secs(61),
            udp: Duration::from_secs(5 * 60),
        },
    };
    assert_eq!((options.mode, options.of_mode.ipvs), (Mode::Ipvs, wanted));
    let periods = (options.sync_period, options.min_sync_period);
    assert_eq!(periods, (Duration::from_secs(45), Duration::from_secs(3)));
    assert_eq!((options.masquerade_mark, options.settings.masquerade_all), (1 << 3, true));
    assert_eq!(of("mode: ipvs\nipvs: {scheduler: ''}\n").of_mode.ipvs, IpvsSettings::default());
    let idle =
        idle(with("mode: ipvs\niptables: {masqueradeBit: 3, syncPeriod: 1m}\nipvs: {strictARP: true}\n"));
    assert_eq!(idle, ["iptables.syncPeriod"]);
}

/// kubeadm writes a zero, which would leave syncs without a pause.
#[test]
fn mode_ipvs_waits_as_long_as_mode_iptables_unless_told() {
    let waits = |body: &str| {
        let completed = completed(with(&format!("mode: ipvs\n{body}")));
        resolve(completed, &SourceFlags::default()).unwrap().options.min_sync_period
    };
    assert_eq!(waits(""), Duration::from_secs(1));
    assert_eq!(waits("ipvs: {minSyncPeriod: 0s}\n"), Duration::from_secs(1));
    assert_eq!(waits("ipvs: {syncPeriod: 500ms}\n"), Duration::from_millis(500));
    assert_eq!(waits("ipvs: {minSyncPeriod: 2s}\n"), Duration::from_secs(2));
}

#[test]
fn schedulers_are_those_of_the_kernel() {
    for scheduler in Scheduler::ALL {
        let body = format!("ipvs: {{scheduler: {}}}\n", scheduler.name());
        assert_eq!(clean(with(&body)).0.of_mode.ipvs.scheduler, Some(scheduler));
    }
    let list = "use rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh";
    for (name, meant) in [("wlcc", "; did you mean wlc?"), ("roundrobin", "")] {
        let problem = format!("ipvs.scheduler: {name:?} is not an IPVS scheduler; {list}{meant}");
        assert_eq!(with(&format!("ipvs: {{scheduler: {name}}}\n")).problems, [problem]);
    }
}

/// Without a mode, what was wished for iptables is wished for its successor, unless that has wishes of its own.
#[test]
fn an_unset_mode_adopts_what_was_set_for_iptables() {
    let body =
        "iptables: {masqueradeBit: 3, masqueradeAll: true, syncPeriod: 50s}\nnftables: {syncPeriod: 10s}\n";
    let adopted = |mode: &str| {
        let completed = completed(with(&format!("{mode}{body}")));
        let idle = ineffective(&completed);
        (completed.configuration.of_mode.nftables, idle)
    };
    let (unset, idle) = adopted("");
    assert_eq!((unset.masquerade_bit, unset.masquerade_all), (Whole(3), true));
    assert_eq!(unset.sync_period, Period(Duration::from_secs(10)));
    assert_eq!(idle, ["iptables.syncPeriod"]);
    let (chosen, idle) = adopted("mode: nftables\n");
    assert_eq!((chosen.masquerade_bit, chosen.masquerade_all), (Whole(14), false));
    assert_eq!(idle, ["iptables.masqueradeBit", "iptables.masqueradeAll", "iptables.syncPeriod"]);
}

#[test]
fn mode_iptables_reads_its_own_section() {
    let body = "iptables: {masqueradeBit: 3, masqueradeAll: true, syncPeriod: 50s, minSyncPeriod: 2s}\n\
        nftables: {syncPeriod: 10s}\nnodePortAddresses: [127.0.0.0/8, 10.0.0.0/8]\n";
    let completed = completed(with(&format!("mode: iptables\n{body}")));
    assert_eq!(ineffective(&completed), ["nftables.syncPeriod"]);
    let options = resolve(completed, &SourceFlags::default()).unwrap().options;
    let periods = (options.sync_period, options.min_sync_period);
    assert_eq!(periods, (Duration::from_secs(50), Duration::from_secs(2)));
    assert_eq!((options.masquerade_mark, options.settings.masquerade_all), (1 << 3, true));
    assert_eq!(options.nodeports_on_loopback, OnLoopback::Rules);
    let off = idle(with(
        &format!("mode: iptables\n{body}")
            .replace("{masqueradeBit", "{localhostNodePorts: false, masqueradeBit"),
    ));
    assert_eq!(off, ["nftables.syncPeriod", "loopback addresses in nodePortAddresses"]);
}

#[test]
fn mode_iptables_serves_node_ports_everywhere_unless_told() {
    let of = |body: &str| resolve(completed(with(body)), &SourceFlags::default()).unwrap().options;
    let options = of("mode: iptables\n");
    assert_eq!(options.nodeport_addresses, NodePortAddresses::Within(Vec::new()), "none named is all");
    assert_eq!(options.nodeports_on_loopback, OnLoopback::Rules);
    assert_eq!(of("mode: nftables\n").nodeports_on_loopback, OnLoopback::Never);
    let off = of("mode: iptables\niptables: {localhostNodePorts: false}\n");
    assert_eq!(off.nodeports_on_loopback, OnLoopback::Never);
    for mode in ["nftables", "ipvs"] {
        let on = of(&format!("mode: {mode}\nfeatureGates: {{KubeProxyNFTablesLocalhostNodePorts: true}}\n"));
        assert_eq!(on.nodeports_on_loopback, OnLoopback::Listeners);
        assert_eq!(of(&format!("mode: {mode}\n")).nodeports_on_loopback, OnLoopback::Never);
    }
    assert_eq!(of("mode: userspace\n").nodeports_on_loopback, OnLoopback::Listeners);
}

#[test]
fn a_kernel_without_nftables_gets_iptables_and_the_reason_why() {
    let (configuration, origin) = clean(with("iptables: {masqueradeBit: 3}\n"));
    let old = || DefaultMode { mode: Mode::Iptables, why: "the kernel is old".into() };
    let completed = complete(configuration, origin, old);
    assert_eq!(ineffective(&completed), Vec::<String>::new());
    let options = resolve(completed, &SourceFlags::default()).unwrap().options;
    assert_eq!((options.mode, options.masquerade_mark), (Mode::Iptables, 1 << 3));
    assert_eq!(options.mode_because.as_deref(), Some("the kernel is old"));
}

#[test]
fn a_default_that_was_given_for_nftables_counts() {
    let body =
        "iptables: {syncPeriod: 50s, masqueradeBit: 3}\nnftables: {syncPeriod: 30s, masqueradeBit: 14}\n";
    let completed = completed(with(body));
    assert_eq!(completed.configuration.of_mode.nftables, Nftables::default());
    assert_eq!(ineffective(&completed), ["iptables.masqueradeBit", "iptables.syncPeriod"]);
}

/// The forwarder that mode userspace has also serves listeners on loopback addresses, and masquerades all that it carries.
#[test]
fn other_modes_read_the_timeout_of_udp_and_mode_userspace_masquerades_anyway() {
    let idle = |mode: &str| {
        idle(with(&format!("mode: {mode}\nudpIdleTimeout: 5s\niptables: {{masqueradeAll: true}}\n")))
    };
    for mode in ["iptables", "ipvs"] {
        assert_eq!(idle(mode), Vec::<String>::new(), "{mode}");
    }
    for mode in ["nftables", "userspace"] {
        assert_eq!(idle(mode), ["iptables.masqueradeAll"], "{mode}");
    }
}
