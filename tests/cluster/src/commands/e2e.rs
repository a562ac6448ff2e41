//! `real-cluster e2e` runs the suite on a fresh cluster; `real-cluster report` writes what all runs came to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use super::{option, plan};
use crate::cluster::{Cluster, Plan};
use crate::programs::Programs;
use crate::proxy::{self, Mode};
use crate::results::{self, Contestant};
use crate::suite::{self, Fate, Fates, Wish};

#[allow(clippy::print_stdout, reason = "this is what it is for")]
pub(super) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let mode = match option(words, "--mode").unwrap_or("nftables") {
        "iptables" => Mode::Iptables,
        "nftables" => Mode::Nftables,
        other => return Err(format!("--mode={other}: nftables or iptables")),
    };
    let contestant = match option(words, "--proxy").unwrap_or("ours") {
        "upstream" => Contestant::Upstream,
        "ours" => Contestant::Ours,
        other => return Err(format!("--proxy={other}: ours or upstream")),
    };
    let number = |name: &str, usual: u32| {
        option(words, name).map_or(Ok(usual), |text| text.parse().map_err(|e| format!("{name}: {e}")))
    };
    let mut only: Vec<String> =
        words.iter().filter_map(|word| word.strip_prefix("--only=")).map(str::to_owned).collect();
    if words.contains(&"--ten") {
        only.extend(suite::TEN.iter().map(|name| (*name).to_owned()));
    }
    let wishes = suite::wishes(&only, number("--processes", 8)? as usize, number("--minutes", 120)?);

    let programs = Programs::find()?;
    let started = Instant::now();
    let say = |what: &str| println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
    let root = if only.is_empty() { root() } else { part() };
    let folder = results::folder(&root, contestant, mode);
    results::forget(&folder)?;
    let mut fates = Fates::new();
    let mut run = |wish: &Wish| {
        let (nodes, families) = if wish.is_usual { suite::USUAL_NODES } else { suite::OTHER_NODES };
        let cluster = Cluster::start(&programs, &Plan { families, ..plan(nodes)? }, &say)?;
        install(&cluster, contestant, mode)?;
        say(&format!("{} in mode {mode} on {nodes} nodes", contestant.word()));
        let folder = if wish.is_usual { folder.clone() } else { results::other_nodes(&folder) };
        fates.extend(suite::run(&cluster, wish, &folder)?);
        Ok::<_, String>(())
    };
    // Half a run is no result, but what it found is worth knowing.
    let ran = wishes.iter().try_for_each(&mut run);
    for (name, fate) in &fates {
        if let Fate::Failed(why) = fate {
            println!("FAILED: {name}: {why}");
        }
    }
    let [passed, failed, skipped] = suite::count(&fates);
    say(&format!("{passed} passed, {failed} failed, {skipped} skipped; {}", folder.display()));
    ran?;
    if fates.values().all(|fate| matches!(fate, Fate::Skipped(_))) {
        return Err(format!("the suite ran no test; see {}", folder.join("log").display()));
    }
    results::save(&folder, &fates)?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// As upstream's tests presume it: the suite calls node ports on the node's own loopback, which mode nftables serves only
/// if it is asked to.
fn install(cluster: &Cluster, contestant: Contestant, mode: Mode) -> Result<(), String> {
    let is_asked = mode == Mode::Nftables;
    match contestant {
        Contestant::Ours => {
            let gate = "config.featureGates.KubeProxyNFTablesLocalhostNodePorts=true";
            let values = [gate, "config.nodePortAddresses={primary,localhost}"];
            proxy::install(cluster, mode, if is_asked { &values } else { &[] })?;
        }
        Contestant::Upstream => {
            let gate = "featureGates: {KubeProxyNFTablesLocalhostNodePorts: true}";
            let lines = [gate, "nodePortAddresses: [primary, localhost]"];
            proxy::install_upstream(cluster, mode, if is_asked { &lines } else { &[] })?;
        }
    }
    cluster.await_rollout("deploy/coredns")
}

/// Fill the document, and fail if ours fails what upstream's passes. The document is left as it is by runs of a part of
/// the suite (`--part`), and while there are not results of every mode and proxy: lines of earlier runs would go.
#[allow(clippy::print_stdout, reason = "this is what it is for")]
pub(super) fn report(words: &[&str]) -> Result<ExitCode, String> {
    let is_part = words.contains(&"--part");
    let outcomes = results::load(&if is_part { part() } else { root() })?;
    if outcomes.is_empty() {
        return Err("there are no results".into());
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let about = format!("One run of `make e2e` for each line, Linux {}.", kernel.trim());
    let page = results::page(&outcomes, &about);
    println!("{page}");
    let missing = results::missing(&outcomes);
    match (is_part, missing.is_empty()) {
        (true, _) => {}
        (false, true) => results::fill(Path::new("docs/e2e.md"), &page)?,
        (false, false) => println!("docs/e2e.md is unchanged: no results of {}", missing.join(", ")),
    }
    let differences = results::differences(&outcomes);
    differences.iter().for_each(|line| println!("DIFFERENCE: {line}"));
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where those of runs with `--only` are kept.
fn part() -> PathBuf {
    root().join("part")
}

/// Where logs and results are kept.
pub(super) fn root() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::path::absolute(target.join("e2e")).unwrap_or_default()
}
