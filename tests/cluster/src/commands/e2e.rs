//! `real-cluster e2e` runs the suite on a fresh cluster; `real-cluster report` writes what all runs came to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use super::{archives, option, profiles};
use crate::cluster::{Cluster, Plan};
use crate::programs::Programs;
use crate::proxy::{self, Mode};
use crate::results::{self, Contestant};
use crate::suite::{self, Fate, Wish};

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
    let nodes = u8::try_from(number("--nodes", 3)?).map_err(|e| e.to_string())?;
    let wish =
        Wish { only, processes: number("--processes", 6)? as usize, minutes: number("--minutes", 120)? };

    let programs = Programs::find()?;
    let started = Instant::now();
    let say = |what: &str| println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
    let plan = Plan { nodes, archives: archives()?, profiles: profiles() };
    let cluster = Cluster::start(&programs, &plan, &say)?;
    match contestant {
        Contestant::Ours => proxy::install(&cluster, mode, &[])?,
        Contestant::Upstream => proxy::install_upstream(&cluster, mode)?,
    }
    cluster.await_rollout("deploy/coredns")?;
    say(&format!("{} in mode {mode}", contestant.word()));
    let folder = results::folder(&root(), contestant, mode);
    let fates = suite::run(&cluster, &wish, &folder)?;
    results::save(&folder, &fates)?;
    for (name, fate) in &fates {
        if let Fate::Failed(why) = fate {
            println!("FAILED: {name}: {why}");
        }
    }
    let [passed, failed, skipped] = suite::count(&fates);
    say(&format!("{passed} passed, {failed} failed, {skipped} skipped; {}", folder.display()));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fill the document, and fail if ours fails what upstream's passes.
#[allow(clippy::print_stdout, reason = "this is what it is for")]
pub(super) fn report() -> Result<ExitCode, String> {
    let outcomes = results::load(&root())?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let about = format!("One run of `make e2e` for each line, three nodes, Linux {}.", kernel.trim());
    let page = results::page(&outcomes, &about);
    println!("{page}");
    results::fill(Path::new("docs/e2e.md"), &page)?;
    let differences = results::differences(&outcomes);
    differences.iter().for_each(|line| println!("DIFFERENCE: {line}"));
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where logs and results are kept.
pub(super) fn root() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::path::absolute(target.join("e2e")).unwrap_or_default()
}
