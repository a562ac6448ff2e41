//! The table of settings: for each its field, its flag, what it is about, whether it does anything and how a change
//! of it takes effect. The defaults are in `Configuration`, the syntax in the type of the value.

mod cluster;
mod logging;
mod node;
mod serving;
mod traffic;
mod unused;

use std::borrow::Cow;

use model::Mode;

use super::configuration::Configuration;
use super::modes;
use super::node::Node;
use super::value::Value;

/// A flag as `--help` shows it.
#[derive(Clone, Copy)]
pub struct Usage {
    pub name: &'static str,
    /// What stands for the value; empty for a switch, which may stand alone.
    pub value: &'static str,
    pub help: &'static str,
    pub group: Group,
}

/// Under which title `--help` lists a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Source,
    Traffic,
    Sync,
    Serving,
    Node,
    /// What only this mode reads.
    Mode(Mode),
    Logging,
    General,
}

impl Group {
    pub fn all() -> impl Iterator<Item = Group> {
        let first = [Group::Source, Group::Traffic, Group::Sync, Group::Serving, Group::Node];
        let modes = Mode::ALL.into_iter().map(Group::Mode);
        first.into_iter().chain(modes).chain([Group::Logging, Group::General])
    }

    pub fn title(self) -> Cow<'static, str> {
        let title = match self {
            Group::Source => "Where objects come from",
            Group::Traffic => "Where packets go",
            Group::Sync => "When rules are written",
            Group::Serving => "What is served",
            Group::Node => "What is set on the node",
            Group::Mode(mode) => return format!("For mode {}", mode.word()).into(),
            Group::Logging => "Logging",
            Group::General => "General",
        };
        title.into()
    }
}

/// What a setting does in this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Here,
    /// Read and kept; nothing looks at it yet.
    NotYet,
    /// Only in these modes.
    Only(&'static [Mode]),
    /// Of another system, or of the past.
    Never,
}

/// How a change of a setting takes effect while the agent runs, from what disturbs least to what disturbs most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnChange {
    /// At once. The rules stay as they are.
    Live,
    /// Rules that differ are rewritten, each family in one transaction where the mode has them.
    Rewrite,
    /// A server moves to another address.
    Rebind,
    /// Objects come over a new connection to the apiserver; the rules stay until its lists are complete.
    Reconnect,
    /// The change is refused: only a restart brings it about.
    Restart,
}

impl OnChange {
    /// As the documentation calls it.
    pub fn word(self) -> &'static str {
        match self {
            OnChange::Live => "live",
            OnChange::Rewrite => "rewrite",
            OnChange::Rebind => "rebind",
            OnChange::Reconnect => "reconnect",
            OnChange::Restart => "restart",
        }
    }
}

/// One row of the table.
pub struct Setting {
    /// The field in the file: `iptables.syncPeriod`.
    pub path: &'static str,
    pub flag: Option<Usage>,
    pub effect: Effect,
    pub on_change: OnChange,
    place: Place,
    /// A zero in the file means that it is unset.
    pub zero_is_unset: bool,
    /// The default is not written: upstream does not know the field, or does not write it either.
    pub omit_default: bool,
}

/// The help of a timeout that is a setting of the node.
macro_rules! timeout {
    ($of:literal) => {
        concat!("Timeout of ", $of, "; 0 keeps the node's setting.")
    };
}
pub(crate) use timeout;

/// Where a configuration holds a value.
pub(crate) type Place = fn(&mut Configuration) -> &mut dyn Value;

pub(crate) const fn setting(path: &'static str, on_change: OnChange, place: Place) -> Setting {
    Setting {
        path,
        flag: None,
        effect: Effect::Here,
        on_change,
        place,
        zero_is_unset: false,
        omit_default: false,
    }
}

impl Setting {
    pub(crate) const fn flag(mut self, group: Group, name: &'static str, value: &'static str) -> Setting {
        self.flag = Some(Usage { name, value, help: "", group });
        self
    }

    /// What `--help` says of the flag.
    pub(crate) const fn help(mut self, help: &'static str) -> Setting {
        if let Some(usage) = &mut self.flag {
            usage.help = help;
        }
        self
    }

    pub(crate) const fn effect(mut self, effect: Effect) -> Setting {
        self.effect = effect;
        self
    }

    pub(crate) const fn zero_is_unset(mut self) -> Setting {
        self.zero_is_unset = true;
        self
    }

    pub(crate) const fn omit_default(mut self) -> Setting {
        self.omit_default = true;
        self
    }

    /// Where a configuration holds it.
    pub fn value<'a>(&self, configuration: &'a mut Configuration) -> &'a mut dyn Value {
        (self.place)(configuration)
    }

    /// The default, as the file holds it.
    pub fn default(&self) -> Node {
        self.value(&mut Configuration::default()).show()
    }

    /// In some mode, or in all.
    pub fn works_somewhere(&self) -> bool {
        match self.effect {
            Effect::Here | Effect::Only(_) => true,
            Effect::NotYet | Effect::Never => false,
        }
    }

    /// With a configuration file most flags are ignored, as Kubernetes' own kube-proxy does.
    pub fn counts_beside_file(&self) -> bool {
        self.path == "hostnameOverride" || self.path.starts_with("logging.")
    }
}

/// Every setting.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    [cluster::ALL, traffic::ALL, modes::SETTINGS, unused::ALL, serving::ALL, node::ALL, logging::ALL]
        .into_iter()
        .flatten()
}
