//! What the agent sets on the node beside its rules: conntrack's limits and timeouts, `route_localnet` where a mode
//! needs it, and how readily the kernel kills this process when memory is short.
//!
//! `plan` says what differs; here it is written. Nothing of this ends a running agent: a node whose rules are right
//! and whose limits are not serves better than one without rules. `--init-only` ends with an error for what more
//! rights would have allowed.

mod cores;
mod file;
mod outcome;
mod plan;

use std::ops::ControlFlow;

use cluster::apiserver::Recorder;
use config::Options;
use kernel::conntrack::{Conntrack, Filter};
use kernel::sysctl::Root;

use crate::{events, run};
use file::File;
use outcome::Undone;
use plan::{Found, Write};

/// Bring the node to what the options ask for; what is right already is not written. Call it again when they changed.
pub(crate) fn apply(options: &Options, recorder: &Recorder) {
    let root = Root::system();
    let mut undone = set_shared(&root, options);
    undone.extend(write_all(&root, &plan::own(options, &look(&root))));
    for undone in &undone {
        undone.log();
    }
    if undone.iter().any(Undone::is_read_only_sys) {
        recorder.record(events::read_only_sys(&options.node_name));
    }
}

/// Whether other options would have something else set.
pub(crate) fn asks_something_else(old: &Options, new: &Options) -> bool {
    old.node != new.node || plan::routes_loopback(old) != plan::routes_loopback(new)
}

/// Whether packets that conntrack finds invalid are to be dropped, in modes that can: not where it tracks packets
/// outside of their window, set by us or by another process. Ask once the node is set up.
pub(crate) fn drops_invalid(options: &Options) -> bool {
    drops_invalid_on(&Root::system(), options)
}

fn drops_invalid_on(root: &Root, options: &Options) -> bool {
    let is_liberal = look(root).get(&File::TcpBeLiberal).is_some_and(|value| *value != 0);
    !is_liberal && !options.node.conntrack.tcp_be_liberal
}

/// `--init-only`: everything that needs more rights than an agent that runs. The message lists what
/// was not done and could have been with more rights.
pub fn init_only(options: &Options) -> Result<(), String> {
    let prepared = run::prepare(options).map_err(|error| error.to_string())?;
    let (tolerable, serious): (Vec<_>, Vec<_>) =
        set_shared(&Root::system(), options).into_iter().partition(Undone::is_beyond_reach);
    tolerable.iter().for_each(Undone::log);
    let mut lines: Vec<String> = serious.iter().map(Undone::to_string).collect();
    lines.extend(prepared.set_up_node(&run::setup(options)));
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\nkube-proxy: ")) }
}

fn set_shared(root: &Root, options: &Options) -> Vec<Undone> {
    load_conntrack(root);
    write_all(root, &plan::shared(options, cores::count(root), &look(root)))
}

/// The files appear with the module, and nothing may have needed it before our rules do.
fn load_conntrack(root: &Root) {
    if root.read(File::ConntrackMax.path()).is_err() {
        // Asking brings it in. If that fails, the files will be missed one by one.
        let _ = Conntrack::dump(&Filter::default(), |_| ControlFlow::Break(()));
    }
}

fn look(root: &Root) -> Found {
    let number = |file: File| root.read(file.path()).ok()?.trim().parse().ok();
    File::ALL.into_iter().filter_map(|file| Some((file, number(file)?))).collect()
}

fn write_all(root: &Root, writes: &[Write]) -> Vec<Undone> {
    writes.iter().filter_map(|write| write_one(root, *write).err()).collect()
}

fn write_one(root: &Root, write: Write) -> Result<(), Undone> {
    root.write(write.file.path(), write.value).map_err(|error| Undone { write, error })?;
    tracing::info!(
        file = write.file.path(),
        before = write.found,
        after = write.value,
        "Changed a node setting"
    );
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/node_setup.rs"]
mod tests;
