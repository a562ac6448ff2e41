//! The commands of `real-cluster`.

mod documented;
mod e2e;
mod moving;
mod short;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cluster::Plan;

const USAGE: &str = "\
usage: real-cluster up                  three nodes with Pointsman, until Ctrl-C
       real-cluster e2e [--mode=nftables|iptables] [--proxy=ours|upstream] [--ten] [--only=PART]...
       real-cluster moving [PART]       moving in and out under traffic; cases whose names contain PART
       real-cluster documented [PART]   the commands of docs/deploy.md; sections whose names contain PART
       real-cluster short               bring-up, one roll-over under traffic, the chart, ten tests
       real-cluster report [--part]     docs/e2e.md from the results of all runs; of those with --only, printed";

/// Do what the words say.
pub fn run(words: &[String]) -> Result<ExitCode, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["up"] => show::run(),
        ["e2e", options @ ..] => e2e::run(options),
        ["short"] => short::run(),
        ["moving", options @ ..] => moving::run(options),
        ["documented", options @ ..] => documented::run(options),
        ["report", options @ ..] => e2e::report(options),
        _ => Err(USAGE.into()),
    }
}

/// The value of `--name=value`.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The images as built by `make image`.
pub(crate) fn archives() -> Result<Vec<PathBuf>, String> {
    let list = std::env::var_os("POINTSMAN_IMAGES").ok_or("POINTSMAN_IMAGES names no image archives")?;
    Ok(std::env::split_paths(&list).collect())
}

/// Nodes as users have them, with what we ship.
fn plan(nodes: u8) -> Result<Plan, String> {
    Ok(Plan { nodes, families: 2, archives: archives()?, profiles: profiles() })
}

/// The seccomp profiles as shipped, under the names by which the deployments ask for them.
fn profiles() -> Vec<(String, PathBuf)> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy"));
    let shipped = [
        ("seccomp", "pointsman-kube-proxy.json"),
        ("seccomp-iptables", "pointsman-kube-proxy-iptables.json"),
    ];
    shipped.map(|(folder, name)| (name.to_owned(), root.join(folder).join("kube-proxy.json"))).into()
}
