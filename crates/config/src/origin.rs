//! Where the settings came from: by flags or by a file, and which of them were given at all.

use std::collections::BTreeSet;

use super::default_mode::DefaultMode;
use super::file::ConfigFile;
use super::settings;

/// How an operator knows the settings: by flags or by fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Flags,
    File,
}

/// The paths of settings that were given. A value alone does not tell: the default can be given too.
pub(crate) type Given = BTreeSet<&'static str>;

#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) place: Place,
    pub(crate) given: Given,
    /// If no proxy mode is set.
    pub(crate) default_mode: Option<DefaultMode>,
    pub(crate) config_file: Option<ConfigFile>,
}

impl Origin {
    pub(crate) fn new(place: Place, given: Given) -> Origin {
        Origin { place, given, default_mode: None, config_file: None }
    }

    /// A setting by the name under which the operator knows it.
    pub(crate) fn name(&self, path: &str) -> String {
        let setting = settings::all().find(|setting| setting.path == path);
        match (self.place, setting.and_then(|setting| setting.flag)) {
            (Place::Flags, Some(usage)) => format!("--{}", usage.name),
            _ => path.to_owned(),
        }
    }

    /// The section that mode nftables reads a field from. There are no flags named after nftables; and who set no
    /// mode wrote his wishes for iptables, which is what Kubernetes' own kube-proxy takes then.
    pub(super) fn section(&self, field: &str) -> &'static str {
        let is_given = |section: &str| self.given.contains(format!("{section}.{field}").as_str());
        let is_adopted = match self.place {
            // The bit has a meaning of its own in each mode, and upstream keeps them apart.
            Place::Flags => self.default_mode.is_some() || field != "masqueradeBit",
            Place::File => self.default_mode.is_some() && is_given("iptables") && !is_given("nftables"),
        };
        if is_adopted { "iptables" } else { "nftables" }
    }
}
