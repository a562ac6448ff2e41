//! What follows from one setting for others: the mode, and what the chosen mode reads.

use std::mem::swap;

use model::{Family, Mode};

use super::configuration::Configuration;
use super::default_mode::DefaultMode;
use super::modes::{self, Sections};
use super::nodeport::NodePortItem;
use super::origin::Origin;
use super::settings::{self, Effect, Setting};

/// A configuration with a mode, and where it came from.
#[derive(Debug)]
pub(crate) struct Completed {
    /// Its mode is the one below.
    pub(crate) configuration: Configuration,
    pub(crate) mode: Mode,
    pub(crate) origin: Origin,
}

/// Choose a mode if none is set, and give it its settings.
pub(crate) fn complete(
    mut configuration: Configuration,
    mut origin: Origin,
    default: impl FnOnce() -> DefaultMode,
) -> Completed {
    let mode = configuration.mode.unwrap_or_else(|| origin.default_mode.insert(default()).mode);
    configuration.mode = Some(mode);
    if mode == Mode::Nftables {
        adopt(&mut configuration, &origin);
        if configuration.node_port_addresses.0.is_empty() {
            configuration.node_port_addresses.0.push(NodePortItem::Primary);
        }
    }
    modes::complete(&mut configuration.of_mode, mode, &origin);
    Completed { configuration, mode, origin }
}

/// What is adopted has its default so far, and leaves it behind.
fn adopt(configuration: &mut Configuration, origin: &Origin) {
    let Sections { iptables, nftables, .. } = &mut configuration.of_mode;
    let is_adopted = |field| origin.section(field) == "iptables";
    if is_adopted("masqueradeBit") {
        swap(&mut iptables.masquerade_bit, &mut nftables.masquerade_bit);
    }
    if is_adopted("masqueradeAll") {
        swap(&mut iptables.masquerade_all, &mut nftables.masquerade_all);
    }
    if is_adopted("syncPeriod") {
        swap(&mut iptables.sync_period, &mut nftables.sync_period);
    }
    if is_adopted("minSyncPeriod") {
        swap(&mut iptables.min_sync_period, &mut nftables.min_sync_period);
    }
}

/// The names of settings that were given, other than their defaults, and that do nothing here.
pub(crate) fn ineffective(Completed { configuration, mode, origin }: &Completed) -> Vec<String> {
    let mut configuration = configuration.clone();
    let is_given = |setting: &&Setting| origin.given.contains(setting.path);
    let mut names = Vec::new();
    for setting in settings::all().filter(is_given) {
        let value = setting.value(&mut configuration).show();
        let works = match setting.effect {
            Effect::Here => true,
            Effect::Only(modes) => modes.contains(mode),
            Effect::NotYet | Effect::Never => false,
        };
        if !works && value != setting.default() {
            names.push(origin.name(setting.path));
        }
    }
    let gates = configuration.feature_gates.ineffective();
    names.extend(gates.map(|gate| format!("{} {gate}", origin.name("featureGates"))));
    let selection = configuration.node_port_addresses.select();
    let is_served = |family: &Family| {
        let how = modes::on_loopback(&configuration, *mode);
        !model::nodeport_loopback(&selection, how, *family).is_empty()
            || !model::nodeport_listeners(&selection, how, *family).is_empty()
    };
    if configuration.node_port_addresses.names_loopback() && !Family::BOTH.iter().any(is_served) {
        names.push(format!("loopback addresses in {}", origin.name("nodePortAddresses")));
    }
    names
}
