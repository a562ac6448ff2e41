//! What the chosen mode reads of the configuration: the section of its name, for mode ipvs the packet mark of iptables,
//! for mode userspace the mark and the periods of iptables.

use std::time::Duration;

use model::{IpvsSettings, IpvsTimeouts, UserspaceSettings};

use super::choice::Mode;
use super::configuration::Configuration;
use super::gates::IPVS;
use super::origin::Origin;
use crate::duration;

/// What every mode has.
pub(crate) struct ModeSettings {
    pub(crate) masquerade_mark: u32,
    pub(crate) masquerade_all: bool,
    pub(crate) sync_period: Duration,
    pub(crate) min_sync_period: Duration,
}

impl ModeSettings {
    /// As the chosen mode reads it.
    pub(crate) fn of(configuration: &Configuration, mode: Mode) -> ModeSettings {
        let Configuration { iptables, ipvs, nftables, .. } = configuration;
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
        ModeSettings {
            masquerade_mark: 1 << bit.0,
            masquerade_all: all,
            sync_period: period.0,
            min_sync_period: least.0,
        }
    }
}

pub(crate) fn check_periods(settings: &ModeSettings, mode: Mode, origin: &Origin) -> Option<String> {
    let ModeSettings { sync_period: period, min_sync_period: least, .. } = *settings;
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
    match mode == Mode::Ipvs && !configuration.feature_gates.is_on(IPVS) {
        true => Err(format!("ipvs needs the feature gate {IPVS}, which is turned off")),
        false => Ok(()),
    }
}

/// What only mode ipvs reads.
pub(crate) fn ipvs(Configuration { ipvs, .. }: &Configuration) -> IpvsSettings {
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

/// What mode userspace reads, where zero stands for the default. No other mode waits for connections when it stops.
pub(crate) fn userspace(configuration: &Configuration, mode: Mode) -> UserspaceSettings {
    let usual = UserspaceSettings::default();
    let or = |span: Duration, usual: Duration| if span.is_zero() { usual } else { span };
    UserspaceSettings {
        udp_idle: or(configuration.udp_idle_timeout.0, usual.udp_idle),
        drain: match mode {
            Mode::Userspace => or(configuration.userspace_drain_timeout.0, usual.drain),
            Mode::Nftables | Mode::Iptables | Mode::Ipvs => Duration::ZERO,
        },
    }
}
