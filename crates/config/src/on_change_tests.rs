//! How a change of each setting takes effect is declared in the table of settings; here it is held against the options
//! that the change reaches.

use super::*;
use complete::complete;
use file::read;
use origin::{Given, Origin, Place};
use resolve::{SourceFlags, resolve};
use settings::{Effect, OnChange};

const OTHER: &str = include_str!("examples/full.yaml");

/// What it takes to go from one to the other. A new option has to be put into one of the groups.
fn needed(old: &Options, new: &Options) -> OnChange {
    fn groups(options: &Options) -> [(OnChange, String); 5] {
        let Options {
            source,
            node_name,
            detect_local,
            nodeport_addresses,
            nodeports_on_loopback,
            settings,
            mode,
            mode_because,
            masquerade_mark,
            service_counters,
            sync_period,
            min_sync_period,
            of_mode,
            healthz_bind_address,
            metrics_bind_address,
            pages,
            feature_gates,
            logging,
            node,
            bind_address,
            bind_address_hard_fail,
            config_file,
        } = options;
        let rules = (detect_local, nodeport_addresses, nodeports_on_loopback, settings, masquerade_mark);
        let rules = (rules, bind_address, node.conntrack.tcp_be_liberal, of_mode.ipvs.scheduler);
        let live = (sync_period, min_sync_period, pages, feature_gates, logging, node);
        let live = (live, mode_because, bind_address_hard_fail, config_file, of_mode);
        [
            // The counters are on the command line only, which does not change.
            (OnChange::Restart, format!("{:?}", (mode, service_counters))),
            (OnChange::Reconnect, format!("{:?}", (source, node_name))),
            (OnChange::Rebind, format!("{:?}", (healthz_bind_address, metrics_bind_address))),
            (OnChange::Rewrite, format!("{rules:?}")),
            (OnChange::Live, format!("{live:?}")),
        ]
    }
    let pairs = groups(old).into_iter().zip(groups(new));
    let differing = pairs.filter(|((_, old), (_, new))| old != new).map(|((kind, _), _)| kind);
    differing.max().unwrap_or(OnChange::Live)
}

fn options(configuration: &Configuration) -> Options {
    let origin = Origin::new(Place::File, Given::new());
    let completed = complete(configuration.clone(), origin, DefaultMode::nftables);
    resolve(completed, &SourceFlags::default()).unwrap().options
}

/// Configurations in which every setting is read by at least one.
fn starts() -> Vec<Configuration> {
    let local = [
        LocalMode::ClusterCidr,
        LocalMode::NodeCidr,
        LocalMode::BridgeInterface,
        LocalMode::InterfaceNamePrefix,
    ];
    let start = |mode, detect_local_mode| {
        let names = DetectLocalNames { bridge_interface: "a".into(), interface_name_prefix: "b".into() };
        let mut start = Configuration {
            mode: Some(mode),
            detect_local_mode,
            detect_local: names,
            hostname_override: "n".into(),
            ..Configuration::default()
        };
        start.feature_gates.0.insert("LoggingAlphaOptions".into(), true);
        start
    };
    Mode::ALL.into_iter().flat_map(|mode| local.map(|local| start(mode, local))).collect()
}

#[test]
fn every_setting_declares_what_its_change_needs() {
    let other = read(OTHER).unwrap().configuration;
    for setting in settings::all() {
        let value = setting.value(&mut other.clone()).show();
        let needs = starts().into_iter().map(|start| {
            let mut changed = start.clone();
            setting.value(&mut changed).read_field(&value).unwrap();
            needed(&options(&start), &options(&changed))
        });
        assert_eq!(needs.max(), Some(setting.on_change), "{}", setting.path);
        if matches!(setting.effect, Effect::NotYet | Effect::Never) {
            assert_eq!(setting.on_change, OnChange::Live, "{} has no effect", setting.path);
        }
    }
}
