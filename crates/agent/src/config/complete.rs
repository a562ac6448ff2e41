//! What follows from one setting for others: the mode, and what the chosen mode reads.

use super::choice::Mode;
use super::configuration::{Configuration, Iptables, Nftables};
use super::nodeport::NodePortItem;
use super::resolve::Place;
use super::settings::{self, Effect};

/// Choose a mode where nobody did, and give it its settings. Whether nobody did is the answer.
pub(crate) fn complete(configuration: &mut Configuration, place: &Place) -> bool {
    let is_default = configuration.mode == Mode::Unset;
    if is_default {
        configuration.mode = Mode::Nftables;
    }
    if configuration.mode == Mode::Nftables {
        let Configuration { iptables, nftables, .. } = configuration;
        match (is_default, place) {
            (true, _) => {
                adopt_bit(iptables, nftables);
                adopt_others(iptables, nftables);
            }
            // There are no flags named after nftables.
            (false, Place::Flags) => adopt_others(iptables, nftables),
            (false, Place::File) => {}
        }
        if configuration.node_port_addresses.0.is_empty() {
            configuration.node_port_addresses.0.push(NodePortItem::Primary);
        }
    }
    is_default
}

/// Who set no mode wrote his wishes for iptables, which is what Kubernetes' own kube-proxy takes then.
fn adopt_bit(iptables: &mut Iptables, nftables: &mut Nftables) {
    move_to(&mut iptables.masquerade_bit, &mut nftables.masquerade_bit, Nftables::default().masquerade_bit);
}

fn adopt_others(iptables: &mut Iptables, nftables: &mut Nftables) {
    let default = Nftables::default();
    move_to(&mut iptables.masquerade_all, &mut nftables.masquerade_all, default.masquerade_all);
    move_to(&mut iptables.sync_period, &mut nftables.sync_period, default.sync_period);
    move_to(&mut iptables.min_sync_period, &mut nftables.min_sync_period, default.min_sync_period);
}

/// Unless the target has a value of its own.
fn move_to<T: PartialEq>(from: &mut T, to: &mut T, default: T) {
    if *to == default {
        *to = std::mem::replace(from, default);
    }
}

/// The names of settings that were changed and do nothing here, as they were given.
pub(crate) fn ineffective(configuration: &Configuration, place: &Place) -> Vec<String> {
    let mut configuration = configuration.clone();
    let mut names = Vec::new();
    for setting in settings::all() {
        let mode = configuration.mode;
        let value = setting.value(&mut configuration).show();
        let works = match setting.effect {
            Effect::Here => true,
            Effect::Only(wanted) => wanted == mode,
            Effect::OnlyZero => value.is_zero(),
            Effect::NotYet | Effect::Never => false,
        };
        if !works && value != setting.default() {
            names.push(place.name(setting.path));
        }
    }
    let gates = configuration.feature_gates.ineffective();
    names.extend(gates.map(|gate| format!("{} {gate}", place.name("featureGates"))));
    if configuration.node_port_addresses.names_loopback() {
        names.push(format!("loopback addresses in {}", place.name("nodePortAddresses")));
    }
    names
}
