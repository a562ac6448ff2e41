//! `real-cluster documented`: the commands of docs/deploy.md, on a cluster.

use std::process::ExitCode;
use std::time::Instant;

use super::plan;
use crate::cluster::Cluster;
use crate::programs::Programs;
use crate::walk;

#[allow(clippy::print_stdout, reason = "this is what it is for")]
pub(super) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let programs = Programs::find()?;
    let started = Instant::now();
    let say = |what: &str| println!("{:6.1} s  {what}", started.elapsed().as_secs_f64());
    let plan = plan(3)?;
    let cluster = Cluster::start(&programs, &plan, &say)?;
    let walked = walk::through_the_page(&cluster, words, &say);
    match walked {
        Ok(0) => Err(format!("docs/deploy.md has no commands in a section named like {words:?}")),
        Ok(commands) => {
            say(&format!("{commands} commands of docs/deploy.md did what it says"));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            println!("FAILED: docs/deploy.md: {error}");
            Ok(ExitCode::FAILURE)
        }
    }
}
