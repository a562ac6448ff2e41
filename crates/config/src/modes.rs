//! The modes in the configuration: their sections, what each reads of them, and what follows from the choice of one. All
//! that the configuration has to say of single modes is here.
//!
//! Modes ipvs and userspace mark packets for masquerade as mode iptables does. With flags, mode nftables takes the periods
//! and --masquerade-all from the flags named after iptables, as Kubernetes' own kube-proxy does.

use std::time::Duration;

use model::{IpvsSettings, IpvsTimeouts, Mode, ModeSettings, OnLoopback, Scheduler, UserspaceSettings};

use crate::address::Prefixes;
use crate::configuration::Configuration;
use crate::duration;
use crate::gates::{self, LOCALHOST};
use crate::origin::Origin;
use crate::settings::OnChange::{Live, Rewrite};
use crate::settings::{Effect, Group, Setting, setting, timeout};
use crate::value::{Period, Span, Whole};

type Bit = Whole<0, 31>;

/// For `--help`.
pub(crate) const HELP: &str = "How rules are programmed: nftables, iptables, ipvs or userspace. Unset, nftables where the \
    kernel has it (Linux 5.13 or later), else iptables.";

/// What the configuration has for single modes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    pub iptables: Iptables,
    pub ipvs: Ipvs,
    pub nftables: Nftables,
    pub userspace: Userspace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iptables {
    pub masquerade_bit: Bit,
    pub masquerade_all: bool,
    pub localhost_node_ports: bool,
    pub sync_period: Period,
    pub min_sync_period: Span,
}

impl Default for Iptables {
    fn default() -> Iptables {
        let Nftables { masquerade_bit, masquerade_all, sync_period, min_sync_period } = Nftables::default();
        Iptables { masquerade_bit, masquerade_all, localhost_node_ports: true, sync_period, min_sync_period }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nftables {
    pub masquerade_bit: Bit,
    pub masquerade_all: bool,
    pub sync_period: Period,
    pub min_sync_period: Span,
}

impl Default for Nftables {
    fn default() -> Nftables {
        Nftables {
            masquerade_bit: Whole(14),
            masquerade_all: false,
            sync_period: Period(Duration::from_secs(30)),
            min_sync_period: Span(Duration::from_secs(1)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipvs {
    pub sync_period: Period,
    pub min_sync_period: Span,
    /// `None`: not set.
    pub scheduler: Option<Scheduler>,
    pub exclude_cidrs: Prefixes,
    pub strict_arp: bool,
    pub tcp_timeout: Span,
    pub tcp_fin_timeout: Span,
    pub udp_timeout: Span,
}

impl Default for Ipvs {
    fn default() -> Ipvs {
        Ipvs {
            sync_period: Period(Duration::from_secs(30)),
            min_sync_period: Span::default(),
            scheduler: None,
            exclude_cidrs: Prefixes::default(),
            strict_arp: false,
            tcp_timeout: Span::default(),
            tcp_fin_timeout: Span::default(),
            udp_timeout: Span::default(),
        }
    }
}

/// Its settings are not in a section of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Userspace {
    /// Zero: not set, as with old releases of upstream.
    pub udp_idle_timeout: Span,
    pub drain_timeout: Span,
}

impl Default for Userspace {
    fn default() -> Userspace {
        let drain_timeout = Span(UserspaceSettings::default().drain);
        Userspace { udp_idle_timeout: Span::default(), drain_timeout }
    }
}

const IPTABLES: Effect = Effect::Only(&[Mode::Iptables]);
const IPTABLES_AND_IPVS: Effect = Effect::Only(&[Mode::Iptables, Mode::Ipvs]);
const IPTABLES_AND_USERSPACE: Effect = Effect::Only(&[Mode::Iptables, Mode::Userspace]);
const NOT_NFTABLES: Effect = Effect::Only(&[Mode::Iptables, Mode::Ipvs, Mode::Userspace]);
const USERSPACE: Effect = Effect::Only(&[Mode::Userspace]);
const IPVS: Effect = Effect::Only(&[Mode::Ipvs]);
const NFTABLES: Effect = Effect::Only(&[Mode::Nftables]);

impl Setting {
    /// Only mode ipvs reads it.
    const fn ipvs(self, flag: &'static str, value: &'static str) -> Setting {
        self.effect(IPVS).flag(Group::Mode(Mode::Ipvs), flag, value)
    }
}

pub(crate) const SETTINGS: &[Setting] = &[
    setting("nftables.masqueradeBit", Rewrite, |c| &mut c.of_mode.nftables.masquerade_bit).effect(NFTABLES),
    setting("nftables.masqueradeAll", Rewrite, |c| &mut c.of_mode.nftables.masquerade_all).effect(NFTABLES),
    setting("nftables.syncPeriod", Live, |c| &mut c.of_mode.nftables.sync_period)
        .zero_is_unset()
        .effect(NFTABLES),
    setting("nftables.minSyncPeriod", Live, |c| &mut c.of_mode.nftables.min_sync_period)
        .zero_is_unset()
        .effect(NFTABLES),
    setting("iptables.masqueradeBit", Rewrite, |c| &mut c.of_mode.iptables.masquerade_bit)
        .effect(NOT_NFTABLES)
        .flag(Group::Traffic, "iptables-masquerade-bit", "BIT")
        .help(
            "The bit of the packet mark that requests masquerading, 0 to 31. Not used with \
             --proxy-mode=nftables, whose bit is nftables.masqueradeBit in the file.",
        ),
    setting("iptables.masqueradeAll", Rewrite, |c| &mut c.of_mode.iptables.masquerade_all)
        .effect(IPTABLES_AND_IPVS)
        .flag(Group::Traffic, "masquerade-all", "")
        .help(
            "Masquerade all cluster-IP traffic, not only that from outside the cluster. Mode userspace does \
             so anyway.",
        ),
    setting("iptables.localhostNodePorts", Rewrite, |c| &mut c.of_mode.iptables.localhost_node_ports)
        .effect(IPTABLES)
        .flag(Group::Traffic, "iptables-localhost-nodeports", "")
        .help("Serve node ports on 127.0.0.1, in mode iptables."),
    setting("iptables.syncPeriod", Live, |c| &mut c.of_mode.iptables.sync_period)
        .zero_is_unset()
        .effect(IPTABLES_AND_USERSPACE)
        .flag(Group::Sync, "iptables-sync-period", "DURATION")
        .help("Interval of the periodic check, in every mode except ipvs; must be greater than 0."),
    setting("iptables.minSyncPeriod", Live, |c| &mut c.of_mode.iptables.min_sync_period)
        .zero_is_unset()
        .effect(IPTABLES_AND_USERSPACE)
        .flag(Group::Sync, "iptables-min-sync-period", "DURATION")
        .help(
            "Maximum time that a change waits for its sync, in every mode except ipvs; an idle agent syncs \
             at once.",
        ),
    setting("ipvs.syncPeriod", Live, |c| &mut c.of_mode.ipvs.sync_period)
        .ipvs("ipvs-sync-period", "DURATION")
        .zero_is_unset()
        .help("All virtual servers are checked once in this time; must be greater than 0."),
    setting("ipvs.minSyncPeriod", Live, |c| &mut c.of_mode.ipvs.min_sync_period)
        .ipvs("ipvs-min-sync-period", "DURATION")
        .help("As --iptables-min-sync-period; 1s if unset."),
    setting("ipvs.scheduler", Rewrite, |c| &mut c.of_mode.ipvs.scheduler)
        .ipvs("ipvs-scheduler", "NAME")
        .help("How endpoints are chosen: rr (if unset), wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh."),
    setting("ipvs.excludeCIDRs", Live, |c| &mut c.of_mode.ipvs.exclude_cidrs)
        .ipvs("ipvs-exclude-cidrs", "CIDR[,...]")
        .help("Do not remove virtual servers in these prefixes."),
    setting("ipvs.strictARP", Live, |c| &mut c.of_mode.ipvs.strict_arp)
        .ipvs("ipvs-strict-arp", "")
        .help("Answer ARP requests only for addresses of the receiving interface."),
    setting("ipvs.tcpTimeout", Live, |c| &mut c.of_mode.ipvs.tcp_timeout)
        .ipvs("ipvs-tcp-timeout", "DURATION")
        .help(timeout!("idle TCP connections")),
    setting("ipvs.tcpFinTimeout", Live, |c| &mut c.of_mode.ipvs.tcp_fin_timeout)
        .ipvs("ipvs-tcpfin-timeout", "DURATION")
        .help(timeout!("TCP connections after a FIN")),
    setting("ipvs.udpTimeout", Live, |c| &mut c.of_mode.ipvs.udp_timeout)
        .ipvs("ipvs-udp-timeout", "DURATION")
        .help(timeout!("idle UDP flows")),
    setting("udpIdleTimeout", Live, |c| &mut c.of_mode.userspace.udp_idle_timeout)
        .omit_default()
        .flag(Group::Mode(Mode::Userspace), "udp-idle-timeout", "DURATION")
        .help(
            "Timeout of idle UDP flows; 30s if unset. In other modes it applies to node ports on loopback \
             addresses that have listeners.",
        ),
    setting("userspaceDrainTimeout", Live, |c| &mut c.of_mode.userspace.drain_timeout)
        .omit_default()
        .effect(USERSPACE)
        .flag(Group::Mode(Mode::Userspace), "userspace-drain-timeout", "DURATION")
        .help("How long open connections may go on when the agent stops; 0 ends them at once."),
];

/// How node ports answer on loopback addresses, where these are chosen.
pub(crate) fn on_loopback(configuration: &Configuration, mode: Mode) -> OnLoopback {
    let has_listeners = configuration.feature_gates.is_on(LOCALHOST);
    match mode {
        Mode::Iptables if configuration.of_mode.iptables.localhost_node_ports => OnLoopback::Rules,
        Mode::Nftables | Mode::Ipvs if has_listeners => OnLoopback::Listeners,
        Mode::Userspace => OnLoopback::Listeners,
        Mode::Nftables | Mode::Iptables | Mode::Ipvs => OnLoopback::Never,
    }
}

/// The default of `ipvs.minSyncPeriod` is zero, which kubeadm writes too, but upstream takes that of mode iptables.
pub(crate) fn complete(sections: &mut Sections, mode: Mode, origin: &Origin) {
    let ipvs = &mut sections.ipvs;
    let is_unset = ipvs.min_sync_period == Span::default() && !origin.given.contains("ipvs.minSyncPeriod");
    if mode == Mode::Ipvs && is_unset {
        ipvs.min_sync_period = Span(Iptables::default().min_sync_period.0.min(ipvs.sync_period.0));
    }
}

/// What every mode has.
pub(crate) struct CommonSettings {
    pub(crate) masquerade_mark: u32,
    pub(crate) masquerade_all: bool,
    pub(crate) sync_period: Duration,
    pub(crate) min_sync_period: Duration,
}

impl CommonSettings {
    /// As the chosen mode reads it.
    pub(crate) fn of(configuration: &Configuration, mode: Mode) -> CommonSettings {
        let Sections { iptables, ipvs, nftables, .. } = &configuration.of_mode;
        let (bit, all) = match mode {
            Mode::Nftables => (&nftables.masquerade_bit, nftables.masquerade_all),
            Mode::Iptables | Mode::Ipvs | Mode::Userspace => {
                (&iptables.masquerade_bit, iptables.masquerade_all)
            }
        };
        let (period, least) = match mode {
            Mode::Nftables => (&nftables.sync_period, &nftables.min_sync_period),
            Mode::Iptables | Mode::Userspace => (&iptables.sync_period, &iptables.min_sync_period),
            Mode::Ipvs => (&ipvs.sync_period, &ipvs.min_sync_period),
        };
        CommonSettings {
            masquerade_mark: 1 << bit.0,
            masquerade_all: all,
            sync_period: period.0,
            min_sync_period: least.0,
        }
    }
}

pub(crate) fn check_periods(settings: &CommonSettings, mode: Mode, origin: &Origin) -> Option<String> {
    let CommonSettings { sync_period: period, min_sync_period: least, .. } = *settings;
    let name = |field| {
        let section = match mode {
            Mode::Iptables | Mode::Userspace => "iptables",
            Mode::Ipvs => "ipvs",
            Mode::Nftables => origin.section(field),
        };
        origin.name(&format!("{section}.{field}"))
    };
    (least > period).then(|| {
        let (least, period) = (duration::format(least), duration::format(period));
        format!("{}: {least} is longer than {}, {period}", name("minSyncPeriod"), name("syncPeriod"))
    })
}

pub(crate) fn check_gate(configuration: &Configuration, mode: Mode) -> Result<(), String> {
    match mode == Mode::Ipvs && !configuration.feature_gates.is_on(gates::IPVS) {
        true => Err(format!("ipvs needs the feature gate {}, which is turned off", gates::IPVS)),
        false => Ok(()),
    }
}

/// What only single modes read.
pub(crate) fn settings_of_modes(configuration: &Configuration, mode: Mode) -> ModeSettings {
    let sections = &configuration.of_mode;
    ModeSettings { ipvs: ipvs(&sections.ipvs), userspace: userspace(&sections.userspace, mode) }
}

fn ipvs(ipvs: &Ipvs) -> IpvsSettings {
    IpvsSettings {
        scheduler: ipvs.scheduler.unwrap_or_default(),
        exclude_cidrs: ipvs.exclude_cidrs.0.iter().map(ipnet::IpNet::trunc).collect(),
        strict_arp: ipvs.strict_arp,
        timeouts: IpvsTimeouts {
            tcp: ipvs.tcp_timeout.0,
            tcp_fin: ipvs.tcp_fin_timeout.0,
            udp: ipvs.udp_timeout.0,
        },
    }
}

/// No other mode waits for connections when it stops.
fn userspace(section: &Userspace, mode: Mode) -> UserspaceSettings {
    let udp_idle = section.udp_idle_timeout.0;
    UserspaceSettings {
        udp_idle: if udp_idle.is_zero() { UserspaceSettings::default().udp_idle } else { udp_idle },
        drain: if mode == Mode::Userspace { section.drain_timeout.0 } else { Duration::ZERO },
    }
}
