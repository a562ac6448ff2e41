//! `real-cluster short`: one cluster, one roll-over under traffic, the chart, ten tests of the suite.

use std::process::ExitCode;
use std::time::Instant;

use super::plan;
use crate::cluster::Cluster;
use crate::moving;
use crate::plugin;
use crate::programs::Programs;
use crate::proxy::{self, Mode};
use crate::results;
use crate::suite::{self, Fate, Wish};

#[allow(clippy::print_stdout, reason = "this is what it is for")]
pub(super) fn run() -> Result<ExitCode, String> {
    let programs = Programs::find()?;
    let started = Instant::now();
    let say = |what: &str| println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
    let plan = plan(3)?;
    let cluster = Cluster::start(&programs, &plan, &say)?;
    moving::in_the_place_of_kubeadms(&cluster, Mode::Nftables, &say)?;
    // The chart takes over the rules that are there.
    cluster.kubectl(&["-n", "kube-system", "delete", "ds/kube-proxy", "--wait"])?;
    proxy::install(&cluster, Mode::Nftables, &[])?;
    cluster.await_rollout("deploy/coredns")?;
    say("Pointsman by its chart");
    plugin::ask(&cluster)?;
    say("kubectl pointsman");
    let ten = suite::TEN.iter().map(|name| (*name).to_owned()).collect();
    let folder = super::e2e::root().join("short");
    results::forget(&folder)?;
    let wish = Wish { only: ten, is_usual: true, processes: 4, minutes: 10 };
    let fates = suite::run(&cluster, &wish, &folder)?;
    for (name, fate) in &fates {
        if let Fate::Failed(why) = fate {
            println!("FAILED: {name}: {why}");
        }
    }
    let [passed, failed, skipped] = suite::count(&fates);
    say(&format!("{passed} passed, {failed} failed, {skipped} skipped"));
    // A name that upstream changed must not go unnoticed.
    let missing = suite::TEN.len().saturating_sub(passed + failed + skipped);
    if missing > 0 {
        println!("FAILED: {missing} of the ten tests are not in the suite");
    }
    Ok(if failed + skipped + missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
