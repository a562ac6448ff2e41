//! `real-cluster moving`: the cases of [`crate::moving`], each on a cluster of its own.

use std::process::ExitCode;
use std::time::Instant;

use super::plan;
use crate::cluster::Cluster;
use crate::moving;
use crate::programs::Programs;
use crate::proxy::Mode;

type Case = fn(&mut Cluster, &dyn Fn(&str)) -> Result<(), String>;

const CASES: &[(&str, Case)] = &[
    ("in the place of kubeadm's, nftables", |cluster, say| {
        moving::in_the_place_of_kubeadms(cluster, Mode::Nftables, say)
    }),
    ("in the place of kubeadm's, iptables", |cluster, say| {
        moving::in_the_place_of_kubeadms(cluster, Mode::Iptables, say)
    }),
    ("by the chart", |cluster, say| moving::by_the_chart(cluster, say)),
    ("while the apiserver restarts", moving::while_the_apiserver_restarts),
    ("while a node reboots", moving::while_a_node_reboots),
    ("a node joins late", moving::a_node_joins_late),
];

#[allow(clippy::print_stdout, reason = "this is what it is for")]
pub(super) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let programs = Programs::find()?;
    let plan = plan(3)?;
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in CASES.iter().filter(|(name, _)| is_wanted(name)) {
        let started = Instant::now();
        println!("moving: {name}");
        let say = |what: &str| println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
        let done = Cluster::start(&programs, &plan, &|_| {}).and_then(|mut cluster| case(&mut cluster, &say));
        match done {
            Ok(()) => passed += 1,
            Err(error) => {
                failed += 1;
                println!("FAILED: {name}: {error}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    Ok(if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
