//! Somebody deletes the rules.

use std::time::{Duration, Instant};

use dataplane::nftables::TABLE_NAME;
use kernel::nft::{Batch, Connection, Family, Transport as _};

use super::DemoError;
use super::cast::WEB;
use super::commit::Commit;
use super::load::Load;
use super::screen::{Screen, Tone, count, span};
use super::stage::Stage;

/// Far more than an answer takes; short, because each request that falls into the gap blocks its thread.
const PATIENCE: Duration = Duration::from_millis(40);
/// So many that some are free to ask while others wait in vain.
const WORKERS: usize = 8;

/// What the repair took, for the summary.
pub(super) struct Repaired {
    /// From the end of the deletion until the first answer to a request made after it.
    pub(super) after: Duration,
    pub(super) failed: usize,
    pub(super) commit: Option<Commit>,
}

pub(super) fn play(stage: &mut Stage, screen: &Screen) -> Result<Repaired, DemoError> {
    let mut load = Load::start(stage.frontend()?, WEB, WORKERS, PATIENCE)?;
    load.more(100)?;
    stage.agent.skip();
    let (begun, deleted) = delete_tables(stage)?;
    let first = load.until("an answer", |shot| shot.started >= deleted && shot.answered())?;
    load.settled("traffic without gaps", 200, |shot| shot.answered())?;
    let failed = load.finish().iter().filter(|shot| shot.ended >= begun && !shot.answered()).count();
    let after = first.ended.duration_since(deleted);
    let commit = stage.agent.next_commit();
    screen.line(&format!("  over another connection: delete table ip {TABLE_NAME}, ip6 {TABLE_NAME}"));
    screen.line(&format!("  traffic flows again after {}", screen.paint(Tone::Number, &span(after))));
    if let Some(commit) = &commit {
        screen.line(&format!("  the agent {commit}"));
    }
    screen.line(&format!("  {} failed while there were no rules", count(failed, "connection")));
    Ok(Repaired { after, failed, commit })
}

/// As another program would. Gives when that began, and when the rules were gone.
fn delete_tables(stage: &Stage) -> Result<(Instant, Instant), DemoError> {
    stage.sandbox.node.try_run(|| {
        let open = Connection::open();
        let mut other = open.map_err(|source| DemoError::System { what: "open a netlink socket", source })?;
        let begun = Instant::now();
        for family in [Family::Ip, Family::Ip6] {
            let mut batch = Batch::new(family, TABLE_NAME);
            batch.delete_table();
            other.commit(&batch)?;
        }
        Ok((begun, Instant::now()))
    })?
}
