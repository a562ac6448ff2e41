//! What carries the plan out: a proxy mode, with the variant of its tools.

use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::Namespace;

use crate::SettingsVariant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Nftables,
    IptablesLegacy,
    IptablesNft,
}

impl Carrier {
    pub const ALL: [Carrier; 3] = [Carrier::Nftables, Carrier::IptablesLegacy, Carrier::IptablesNft];
    pub const IPTABLES: [Carrier; 2] = [Carrier::IptablesLegacy, Carrier::IptablesNft];

    pub fn name(self) -> &'static str {
        match self {
            Carrier::Nftables => "nftables",
            Carrier::IptablesLegacy => "iptables-legacy",
            Carrier::IptablesNft => "iptables-nft",
        }
    }

    /// What the agent is started with. The default of mode iptables is to serve node ports everywhere.
    pub fn flags(self) -> Vec<String> {
        let words: &[&str] = match self {
            Carrier::Nftables => &[],
            Carrier::IptablesLegacy | Carrier::IptablesNft => &[
                "--proxy-mode=iptables",
                "--nodeport-addresses=primary",
                "--iptables-localhost-nodeports=false",
            ],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Whether a variant of the settings means anything to it.
    pub fn knows(self, variant: SettingsVariant) -> bool {
        self == Carrier::Nftables || variant != SettingsVariant::ServiceCounters
    }

    /// One of its tools; `kind` is `-save`, `-restore` or nothing.
    pub fn tool(self, is_ipv6: bool, kind: &str) -> String {
        let base = if is_ipv6 { "ip6tables" } else { "iptables" };
        let variant = if self == Carrier::IptablesNft { "nft" } else { "legacy" };
        format!("{base}-{variant}{kind}")
    }

    /// Leave in a node's namespace the sign by which the agent tells the variant, as a kubelet does.
    pub fn prepare(self, node: &Namespace, lock: &Path) -> Result<(), String> {
        if self == Carrier::Nftables {
            return Ok(());
        }
        run(node, lock, &self.tool(false, ""), &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"], "").map(drop)
    }
}

/// Run one of the tools in a namespace, with a lock of its own, and return what it printed.
pub fn run(
    node: &Namespace,
    lock: &Path,
    tool: &str,
    arguments: &[&str],
    input: &str,
) -> Result<String, String> {
    let mut command = Command::new(tool);
    command.args(arguments).env("XTABLES_LOCKFILE", lock);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    node.enter(&mut command).map_err(|e| e.to_string())?;
    let mut child = command.spawn().map_err(|e| format!("{tool}: {e}"))?;
    let mut stdin = child.stdin.take();
    let written = stdin.as_mut().map(|stdin| std::io::Write::write_all(stdin, input.as_bytes()));
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| format!("{tool}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), written) {
        (true, None | Some(Ok(()))) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        (true, Some(Err(error))) => Err(format!("{tool} did not read its input: {error}")),
        (false, _) => Err(format!("{tool} {}: {}", arguments.join(" "), said.trim())),
    }
}
