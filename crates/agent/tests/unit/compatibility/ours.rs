//! What the code has, from the tables that it runs by.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use cluster::apiserver::{IGNORED_ENTRIES, UNUSABLE_OBJECT};
use config::flags::{Command, parse};
use config::settings::{self, Effect};
use config::{DefaultMode, FeatureGates, OF_A_PROXY, Value, flags};

use super::{Things, What};
use crate::health::Health;
use crate::http::profiles;
use crate::http::{Context, paths};
use crate::inbox;
use crate::questions::Asker;
use telemetry::metrics::Metrics;

const EVENTS: &str = include_str!("../../../src/events.rs");
/// Quoted words there that are no reasons.
const ACTIONS: [&str; 5] = ["StartKubeProxy", "ReloadConfiguration", "Listen", "ClaimAddress", "Program"];

pub(super) struct Ours {
    pub(super) things: Things,
    /// Of metrics: type and labels.
    pub(super) shapes: BTreeMap<String, String>,
    help: BTreeMap<(What, String), &'static str>,
    /// What has no effect, or not everywhere.
    pub(super) limits: BTreeMap<(What, String), String>,
}

impl Ours {
    pub(super) fn find() -> Ours {
        let mut ours = Ours {
            things: Things::new(),
            shapes: BTreeMap::new(),
            help: BTreeMap::new(),
            limits: BTreeMap::new(),
        };
        ours.settings();
        ours.gates();
        ours.metrics();
        ours.pages();
        let of_modes =
            dataplane::MODES.into_iter().filter_map(|mode| mode.advice()).map(|(reason, _)| reason);
        for reason in reasons().into_iter().chain([IGNORED_ENTRIES, UNUSABLE_OBJECT]).chain(of_modes) {
            ours.add(What::Event, reason);
        }
        ours
    }

    pub(super) fn help(&self, thing: &(What, String)) -> Option<&'static str> {
        self.help.get(thing).copied()
    }

    fn add(&mut self, what: What, name: &str) -> (What, String) {
        let thing = (what, name.to_owned());
        self.things.insert(thing.clone());
        thing
    }

    fn settings(&mut self) {
        for usage in flags::usages() {
            let flag = self.add(What::Flag, usage.name);
            self.help.insert(flag, usage.help);
        }
        for field in ["apiVersion", "kind"] {
            self.add(What::Field, field);
        }
        for setting in settings::all() {
            let field = self.add(What::Field, setting.path);
            let limit = match setting.effect {
                Effect::Here | Effect::Only(_) => continue,
                Effect::NotYet => "no effect yet: read and checked".to_owned(),
                Effect::Never => "same: none on Linux".to_owned(),
            };
            let flag = setting.flag.map(|usage| (What::Flag, usage.name.to_owned()));
            self.limits.extend(flag.into_iter().chain([field]).map(|thing| (thing, limit.clone())));
        }
    }

    fn gates(&mut self) {
        for gate in FeatureGates::default().words() {
            self.add(What::Gate, gate);
        }
        let turned = OF_A_PROXY.iter().map(|gate| (gate.name.to_owned(), !gate.default)).collect();
        for gate in FeatureGates(turned).ineffective() {
            self.limits.insert((What::Gate, gate.to_owned()), "no effect yet: read".to_owned());
        }
    }

    fn metrics(&mut self) {
        let all_gates = FeatureGates(OF_A_PROXY.iter().map(|gate| (gate.name.to_owned(), true)).collect());
        let [_, slis] = Metrics::of_mode("nftables", &FeatureGates::default()).described();
        for mode in dataplane::MODES {
            for about in &Metrics::new(mode.metrics(), &all_gates).described()[0] {
                let metric = self.add(What::Metric, about.name);
                self.describe(about.name, about.kind.word(), about.labels);
                self.help.insert(metric, about.help);
            }
        }
        for about in &slis {
            self.add(What::Sli, about.name);
            self.describe(about.name, about.kind.word(), about.labels);
        }
        for about in dataplane::MODES.into_iter().flat_map(|mode| mode.metrics().own) {
            self.add(What::Metric, about.name);
        }
    }

    fn describe(&mut self, name: &str, kind: &str, labels: &[&str]) {
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        self.shapes.insert(name.to_owned(), format!("{kind} {{{}}}", labels.join(",")));
    }

    fn pages(&mut self) {
        let arguments = ["--manifests=x", "--hostname-override=n", "--profiling"].map(OsString::from);
        let Command::Run(resolved) = parse(arguments.into_iter(), DefaultMode::nftables).unwrap().command
        else {
            panic!("no run")
        };
        let context = Context {
            health: Health::new(Duration::ZERO),
            metrics: Metrics::of_mode("nftables", &FeatureGates::default()),
            started: SystemTime::UNIX_EPOCH,
            arguments: Vec::new(),
            sync_thread: Asker::new(inbox::channel().0),
        };
        let [probes, pages] = paths(&resolved.options, &context);
        probes.iter().for_each(|path| drop(self.add(What::Page, &format!("probes {path}"))));
        pages.iter().for_each(|path| drop(self.add(What::Page, &format!("metrics {path}"))));
        // Below the tree of profiles; the real server is asked for each in conformance.
        for name in ["profile", "heap", "allocs", "cmdline", "symbol"] {
            assert!(!profiles::GO_ONLY.contains(&name));
            self.add(What::Page, &format!("metrics {}{name}", profiles::PREFIX));
        }
    }
}

/// Quoted words in capitals and small letters, which nothing else in that file is.
fn reasons() -> Vec<&'static str> {
    let quoted = EVENTS.split('"').skip(1).step_by(2);
    let is_word = |text: &&str| text.len() > 4 && text.chars().all(|c| c.is_ascii_alphabetic());
    quoted.filter(is_word).filter(|word| !ACTIONS.contains(word)).collect()
}
