//! What the iptables tools print: saved rules, complaints, versions.

use dataplane::iptables::{removal, removal_of_ipvs};

use super::Target;
use crate::Limits;

pub(super) const IPTABLES_SAVE: Target = Target {
    name: "iptables_save",
    run,
    limits: Limits { fixed: 64 << 10, per_byte: 256 },
    seeds,
    dictionary: &[
        "-A KUBE-SERVICES ",
        ":KUBE-SVC-X - [0:0]\n",
        "-m comment --comment \"",
        "\\\"",
        "-j KUBE-MARK-MASQ",
        "--to-destination ",
        "! -s 10.244.0.0/16",
        "-m statistic --mode random --probability 0.5",
        "--reject-with icmp-port-unreachable",
        "*nat\n",
        "*filter\n",
        "COMMIT\n",
        "Error occurred at line: ",
        "line 3 failed",
        "Chain 'A' does not exist",
        "iptables v1.8.9 (nf_tables)",
    ],
    longest: 4096,
};

/// Three parts between NULs: what was saved, lines of a script, a complaint.
fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut parts = text.split('\0');
    let saved = parts.next().unwrap_or_default();
    let lines = parts.next().unwrap_or_default();
    let said = parts.next().unwrap_or_default();
    dataplane::fuzz::saved(saved, "KUBE-SERVICES", lines);
    for script in [removal(saved), removal_of_ipvs(saved)].into_iter().flatten() {
        assert!(script.ends_with("COMMIT\n"), "{script:?}");
    }
    kernel::fuzz::tool(said, lines);
}

fn seeds() -> Vec<Vec<u8>> {
    let saved = "# Generated\n*nat\n:PREROUTING ACCEPT [3:180]\n:KUBE-SERVICES - [0:0]\n:KUBE-IPVS-OUT-FILTER - [0:0]\n\
        -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment \"default/web:http\" -m tcp --dport 80 -j KUBE-SVC-X\n\
        -A KUBE-SERVICES ! -s fd00::/8 -j DNAT --to-destination [fd00::1]:80 --random-fully\nCOMMIT\n";
    let lines = "-A KUBE-SERVICES -d 10.96.0.1 -p tcp --dport 80 -j KUBE-SVC-X\n-A A -j REJECT --reject-with tcp-reset\n";
    let said = [
        "iptables-nft-restore v1.8.9 (nf_tables): Chain 'KUBE-SVC-X' does not exist\nError occurred at line: 1\nTry",
        "Fatal: can't open lock file /l: Read-only file system",
        "iptables-restore: line 2 failed",
    ];
    said.iter().map(|said| format!("{saved}\0{lines}\0{said}").into_bytes()).collect()
}
