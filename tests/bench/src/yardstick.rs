//! The yardstick: the common layout loaded by the `nft` tool, in a namespace of its own.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kernel::netns::Namespace;

use crate::results::YardstickResult;
use crate::scratch::Scratch;
use crate::{Failure, upstream};
use bench_support::gauge::{self, Resident, Ticks};

const STEP: Duration = Duration::from_millis(5);

/// Whether the tool is there to be measured.
pub(crate) fn is_installed() -> bool {
    Command::new("nft").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// `ours_ms` is what our full load of the same size took.
pub(crate) fn measure(services: u32, ours_ms: f64) -> Result<YardstickResult, Failure> {
    let scratch = Scratch::new("yardstick")?;
    let path = scratch.path().join("rules.nft");
    let text = upstream::text(services);
    std::fs::write(&path, &text)?;
    let namespace = Namespace::new()?;
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(File::open(&path)?);
    namespace.enter(&mut command)?;
    let cpu_before = Ticks::of_children().map_or(0.0, Ticks::millis);
    let started = Instant::now();
    let mut child = command.spawn()?;
    let mut peak_kib = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // The kernel forgets the peak when the process ends; it only grows, so the last reading is close.
        peak_kib = Resident::of(&child.id().to_string()).map_or(peak_kib, |resident| resident.peak_kib);
        std::thread::sleep(STEP);
    };
    let wall = started.elapsed();
    if !status.success() {
        return Err(format!("nft ended with {status}").into());
    }
    let wall_ms = gauge::micros(wall) / 1e3;
    Ok(YardstickResult {
        services,
        text_bytes: text.len() as u64,
        wall_ms,
        cpu_ms: Ticks::of_children().map_or(0.0, Ticks::millis) - cpu_before,
        peak_kib,
        ratio: wall_ms / ours_ms,
    })
}
