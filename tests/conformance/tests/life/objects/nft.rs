//! What the kernel holds, as the `nft` tool prints it.

use std::process::Command;

use model::Family;
use sandbox::Namespace;

/// Our table of a family as text.
pub(crate) fn table(namespace: &Namespace, family: Family) -> String {
    let word = match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    let mut command = Command::new("nft");
    command.args(["list", "table", word, "kube-proxy"]);
    namespace.enter(&mut command).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
