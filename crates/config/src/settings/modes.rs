//! What not every mode reads. Modes ipvs and userspace mark packets for masquerade as mode iptables does. With flags, mode nftables takes the periods and --masquerade-all from the flags
//! named after iptables, as Kubernetes' own kube-proxy does.

use super::super::choice::Mode;
use super::OnChange::{Live, Rewrite};
use super::{Effect, Group, Setting, setting};

const IPTABLES: Effect = Effect::Only(&[Mode::Iptables]);
const IPTABLES_AND_USERSPACE: Effect = Effect::Only(&[Mode::Iptables, Mode::Userspace]);
const NOT_NFTABLES: Effect = Effect::Only(&[Mode::Iptables, Mode::Ipvs, Mode::Userspace]);
const USERSPACE: Effect = Effect::Only(&[Mode::Userspace]);
const IPVS: Effect = Effect::Only(&[Mode::Ipvs]);
const NFTABLES: Effect = Effect::Only(&[Mode::Nftables]);

pub(super) const ALL: &[Setting] = &[
    setting("nftables.masqueradeBit", Rewrite, |c| &mut c.nftables.masquerade_bit).effect(NFTABLES),
    setting("nftables.masqueradeAll", Rewrite, |c| &mut c.nftables.masquerade_all).effect(NFTABLES),
    setting("nftables.syncPeriod", Live, |c| &mut c.nftables.sync_period).zero_is_unset().effect(NFTABLES),
    setting("nftables.minSyncPeriod", Live, |c| &mut c.nftables.min_sync_period).zero_is_unset().effect(NFTABLES),
    setting("iptables.masqueradeBit", Rewrite, |c| &mut c.iptables.masquerade_bit).effect(NOT_NFTABLES).flag(
        Group::Traffic,
        "iptables-masquerade-bit",
        "BIT",
        "The bit of the packet mark that requests masquerading, 0 to 31. Not used with --proxy-mode=nftables, whose \
         bit is nftables.masqueradeBit in the file.",
    ),
    setting("iptables.masqueradeAll", Rewrite, |c| &mut c.iptables.masquerade_all).effect(NOT_NFTABLES).flag(
        Group::Traffic,
        "masquerade-all",
        "",
        "Masquerade all cluster-IP traffic, not only that from outside the cluster.",
    ),
    setting("iptables.localhostNodePorts", Rewrite, |c| &mut c.iptables.localhost_node_ports).effect(IPTABLES).flag(
        Group::Traffic,
        "iptables-localhost-nodeports",
        "",
        "Serve node ports on 127.0.0.1, in mode iptables.",
    ),
    setting("iptables.syncPeriod", Live, |c| &mut c.iptables.sync_period).zero_is_unset().effect(IPTABLES_AND_USERSPACE).flag(
        Group::Sync,
        "iptables-sync-period",
        "DURATION",
        "Interval of the periodic check, in every mode except ipvs; must be greater than 0.",
    ),
    setting("iptables.minSyncPeriod", Live, |c| &mut c.iptables.min_sync_period)
        .zero_is_unset()
        .effect(IPTABLES_AND_USERSPACE)
        .flag(
            Group::Sync,
            "iptables-min-sync-period",
            "DURATION",
            "Maximum time that a change waits for its sync, in every mode except ipvs; an idle agent syncs at once.",
        ),
    setting("ipvs.syncPeriod", Live, |c| &mut c.ipvs.sync_period).zero_is_unset().effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-sync-period",
        "DURATION",
        "All virtual servers are checked once in this time; must be greater than 0.",
    ),
    setting("ipvs.minSyncPeriod", Live, |c| &mut c.ipvs.min_sync_period).effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-min-sync-period",
        "DURATION",
        "As --iptables-min-sync-period; 1s if unset.",
    ),
    setting("ipvs.scheduler", Rewrite, |c| &mut c.ipvs.scheduler).effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-scheduler",
        "NAME",
        "How endpoints are chosen: rr (if unset), wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh.",
    ),
    setting("ipvs.excludeCIDRs", Live, |c| &mut c.ipvs.exclude_cidrs).effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-exclude-cidrs",
        "CIDR[,...]",
        "Do not remove virtual servers in these prefixes.",
    ),
    setting("ipvs.strictARP", Live, |c| &mut c.ipvs.strict_arp).effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-strict-arp",
        "",
        "Answer ARP requests only for addresses of the receiving interface.",
    ),
    setting("ipvs.tcpTimeout", Live, |c| &mut c.ipvs.tcp_timeout).effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-tcp-timeout",
        "DURATION",
        "Timeout of idle TCP connections; 0 keeps the node's setting.",
    ),
    setting("ipvs.tcpFinTimeout", Live, |c| &mut c.ipvs.tcp_fin_timeout).effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-tcpfin-timeout",
        "DURATION",
        "Timeout of TCP connections after a FIN; 0 keeps the node's setting.",
    ),
    setting("ipvs.udpTimeout", Live, |c| &mut c.ipvs.udp_timeout).effect(IPVS).flag(
        Group::Ipvs,
        "ipvs-udp-timeout",
        "DURATION",
        "Timeout of idle UDP flows; 0 keeps the node's setting.",
    ),
    setting("udpIdleTimeout", Live, |c| &mut c.udp_idle_timeout).omit_zero().effect(USERSPACE).flag(
        Group::Userspace,
        "udp-idle-timeout",
        "DURATION",
        "Timeout of idle UDP flows; 30s if unset.",
    ),
    setting("userspaceDrainTimeout", Live, |c| &mut c.userspace_drain_timeout).omit_zero().effect(USERSPACE).flag(
        Group::Userspace,
        "userspace-drain-timeout",
        "DURATION",
        "How long open connections may go on when the agent stops; 10s if unset.",
    ),
    setting("winkernel.networkName", Live, |c| &mut c.winkernel.network_name).effect(Effect::Never),
    setting("winkernel.sourceVip", Live, |c| &mut c.winkernel.source_vip).effect(Effect::Never),
    setting("winkernel.enableDSR", Live, |c| &mut c.winkernel.enable_dsr).effect(Effect::Never),
    setting("winkernel.rootHnsEndpointName", Live, |c| &mut c.winkernel.root_hns_endpoint_name).effect(Effect::Never),
    setting("winkernel.forwardHealthCheckVip", Live, |c| &mut c.winkernel.forward_health_check_vip)
        .effect(Effect::Never),
    setting("windowsRunAsService", Live, |c| &mut c.windows_run_as_service).omit_zero().effect(Effect::Never),
    setting("portRange", Live, |c| &mut c.port_range).effect(Effect::Never),
];
