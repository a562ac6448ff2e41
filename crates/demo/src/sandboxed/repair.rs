//! Another process deletes the rules.

use std::time::{Duration, Instant};

use dataplane::nftables::TABLE_NAME;
use kernel::nft::{Batch, Connection, TableFamily, Transport as _};

use super::DemoError;
use super::cast::WEB;
use super::commit::Commit;
use super::load::Load;
use super::screen::{Screen, Tone, count, span};
use super::stage::Stage;

/// Interval of the requests; what falls into the gap waits in vain and must not hold up the next.
const EVERY: Duration = Duration::from_millis(1);
/// Far more than an answer takes.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the repair took, for the summary.
pub(super) struct Repaired {
    /// From the end of the deletion until the first answer to a request made after it.
    pub(super) after: Duration,
    pub(super) failed: usize,
    pub(super) commit: Option<Commit>,
}

pub(super) fn play(stage: &mut Stage, screen: &Screen) -> Result<Repaired, DemoError> {
    screen.line("  one connection per millisecond; meanwhile another netlink socket sends");
    screen.line(&format!("  delete table ip {TABLE_NAME} and delete table ip6 {TABLE_NAME}"));
    let mut load = Load::paced(stage.frontend()?, WEB, EVERY, PATIENCE)?;
    load.more(50)?;
    stage.agent.skip();
    let (begun, deleted) = delete_tables(stage)?;
    let first = load.until("an answer", |shot| shot.started >= deleted && shot.answered())?;
    load.settled("traffic without gaps", 100, |shot| shot.answered())?;
    let failed = load.finish().iter().filter(|shot| shot.ended >= begun && !shot.answered()).count();
    let after = first.ended.duration_since(deleted);
    let commit = stage.agent.next_commit();
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
        other.commit(&deletion(TableFamily::Ip))?;
        // What is asked is IPv4.
        let deleted = Instant::now();
        other.commit(&deletion(TableFamily::Ip6))?;
        Ok((begun, deleted))
    })?
}

fn deletion(family: TableFamily) -> Batch {
    let mut batch = Batch::new(family, TABLE_NAME);
    batch.delete_table();
    batch
}
