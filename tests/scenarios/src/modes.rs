//! The proxy modes that tests run, each with the variant of its tools: the one list of them.
//!
//! A further mode is a [`Carrier`] with its entry, a line in [`for_each_simulated`] if its kernel is simulated, and a rig
//! in `tests/life`. Every test that runs in all modes takes them from here.

use std::path::Path;

use dataplane::iptables::Iptables;
use dataplane::nftables::Nftables;
use sandbox::Namespace;

use crate::simulated::{Simulated, ipvs::SimulatedIpvs, userspace::SimulatedUserspace};
use crate::{SettingsVariant, tools};

/// What carries the plan out: a proxy mode, with the variant of its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Nftables,
    IptablesLegacy,
    IptablesNft,
    Ipvs,
    Userspace,
}

/// What tests have to know of one.
struct Entry {
    /// In the names of cases.
    name: &'static str,
    /// As `--proxy-mode` has it, and the section of its settings in a configuration file.
    mode: &'static str,
    /// What the agent is started with. Node ports are served on the node's primary address, whatever the mode's default.
    flags: &'static [&'static str],
    /// The settings that mean anything to it.
    variants: &'static [SettingsVariant],
    /// The variant of the iptables tools that it runs.
    tools: Option<&'static str>,
}

const IPTABLES: &[&str] =
    &["--proxy-mode=iptables", "--nodeport-addresses=primary", "--iptables-localhost-nodeports=false"];

impl Carrier {
    pub const ALL: [Carrier; 5] =
        [Carrier::Nftables, Carrier::IptablesLegacy, Carrier::IptablesNft, Carrier::Ipvs, Carrier::Userspace];

    const fn entry(self) -> Entry {
        match self {
            Carrier::Nftables => Entry {
                name: "nftables",
                mode: "nftables",
                flags: &[],
                variants: &SettingsVariant::ALL,
                tools: None,
            },
            Carrier::IptablesLegacy => Entry {
                name: "iptables-legacy",
                mode: "iptables",
                flags: IPTABLES,
                variants: &SettingsVariant::OF_EVERY_MODE,
                tools: Some("legacy"),
            },
            Carrier::IptablesNft => Entry {
                name: "iptables-nft",
                mode: "iptables",
                flags: IPTABLES,
                variants: &SettingsVariant::OF_EVERY_MODE,
                tools: Some("nft"),
            },
            Carrier::Ipvs => Entry {
                name: "ipvs",
                mode: "ipvs",
                flags: &["--proxy-mode=ipvs", "--nodeport-addresses=primary"],
                variants: &SettingsVariant::ALL,
                tools: None,
            },
            Carrier::Userspace => Entry {
                name: "userspace",
                mode: "userspace",
                flags: &["--proxy-mode=userspace", "--nodeport-addresses=primary"],
                variants: &SettingsVariant::OF_EVERY_MODE,
                tools: None,
            },
        }
    }

    pub fn name(self) -> &'static str {
        self.entry().name
    }

    pub fn mode(self) -> &'static str {
        self.entry().mode
    }

    /// What the agent is started with.
    pub fn flags(self) -> Vec<String> {
        self.entry().flags.iter().map(|word| (*word).to_owned()).collect()
    }

    pub fn variants(self) -> &'static [SettingsVariant] {
        self.entry().variants
    }

    /// Whether it runs the tools of iptables.
    pub fn has_tools(self) -> bool {
        self.entry().tools.is_some()
    }

    /// One of its tools; `kind` is `-save`, `-restore` or nothing.
    pub fn tool(self, is_ipv6: bool, kind: &str) -> String {
        let base = if is_ipv6 { "ip6tables" } else { "iptables" };
        format!("{base}-{}{kind}", self.entry().tools.expect("a mode with tools"))
    }

    /// Whether a process carries connections, and opens one of its own to each endpoint: it does not carry SCTP, endpoints
    /// see an address of the node, and connections end with the agent.
    pub fn is_a_process(self) -> bool {
        self == Carrier::Userspace
    }

    /// Why it cannot run on this machine.
    pub fn obstacle(self) -> Option<String> {
        if self == Carrier::Ipvs {
            return kernel::ipvs::Connection::open().err().map(|error| error.to_string());
        }
        let is_missing = self.has_tools() && !tools::is_installed(&self.tool(false, "-restore"));
        is_missing.then(|| format!("the tools of {} are not installed", self.name()))
    }

    /// Leave in a node's namespace the sign by which the agent tells the variant, as a kubelet does.
    pub fn prepare(self, node: &Namespace, lock: &Path) -> Result<(), String> {
        self.hint(node, lock, "-N")
    }

    /// Take the sign away again.
    pub fn unprepare(self, node: &Namespace, lock: &Path) -> Result<(), String> {
        self.hint(node, lock, "-X")
    }

    fn hint(self, node: &Namespace, lock: &Path, command: &str) -> Result<(), String> {
        if !self.has_tools() {
            return Ok(());
        }
        let arguments = ["-t", "mangle", command, "KUBE-IPTABLES-HINT"];
        tools::run(node, lock, &self.tool(false, ""), &arguments, "").map(drop)
    }
}

/// Something to be done in each mode.
pub trait InMode {
    fn run<B: Simulated + 'static>(&mut self);
}

/// In each mode whose kernel is simulated.
pub fn for_each_simulated(work: &mut impl InMode) {
    work.run::<Nftables<simulate::nft::Simulator>>();
    work.run::<Iptables<simulate::iptables::Simulator>>();
    work.run::<SimulatedIpvs>();
    work.run::<SimulatedUserspace>();
}
