//! `cargo run --release --example load -- PATH`: load manifests into a state, say how long it took and what
//! it weighs.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Instant;

use cluster::manifests::ManifestSource;
use cluster::{ClusterState, Update};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        println!("usage: load PATH");
        return ExitCode::FAILURE;
    };
    let started = Instant::now();
    // Small, so that the reader does not run ahead of the state.
    let (sender, updates) = mpsc::sync_channel(4);
    let deliver = move |update| sender.send(update).map_or(ControlFlow::Break(()), ControlFlow::Continue);
    let _watch = match ManifestSource::new(path).watch(deliver) {
        Ok(watch) => watch,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut state = ClusterState::default();
    while !state.is_complete()
        && let Ok(update) = updates.recv()
    {
        if let Update::Problems { new, .. } = &update {
            new.iter().for_each(|problem| println!("{problem}"));
        }
        state.update(update);
    }
    println!("{:?} after {:?}", state.counts(), started.elapsed());
    drop(state.take_dirty());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    memory.for_each(|line| println!("{line}"));
    ExitCode::SUCCESS
}
