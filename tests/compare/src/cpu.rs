//! The CPU time of a process and everything it starts: by a control group of its own where the kernel has
//! version 2 of them, to the microsecond; else by the process's own account, to ten milliseconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bench_support::gauge::Ticks;

use crate::Failure;

#[derive(Debug)]
pub(crate) enum CpuAccount {
    /// The folder; it is removed when this goes.
    Group(PathBuf),
    /// Children count when they have ended.
    Process(u32),
}

impl CpuAccount {
    /// Of a process that was started just now.
    pub(crate) fn open(process: u32) -> CpuAccount {
        match group().and_then(|folder| enter(folder, process)) {
            Some(folder) => CpuAccount::Group(folder),
            None => CpuAccount::Process(process),
        }
    }

    /// User and system time so far.
    pub(crate) fn used(&self) -> Result<Duration, Failure> {
        match self {
            CpuAccount::Group(folder) => {
                let text = fs::read_to_string(folder.join("cpu.stat"))?;
                Ok(usage(&text).ok_or("cpu.stat does not tell usage_usec")?)
            }
            CpuAccount::Process(process) => {
                let ticks = Ticks::of_tree(&process.to_string()).ok_or("the process has ended")?;
                Ok(Duration::from_secs_f64(ticks.millis() / 1e3))
            }
        }
    }
}

impl Drop for CpuAccount {
    fn drop(&mut self) {
        if let CpuAccount::Group(folder) = self {
            // Refused as long as a process is in it; then an empty folder stays until the next start.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// How CPU times are taken on this machine, for the notes under the numbers.
pub(crate) fn kind() -> &'static str {
    match group().map(CpuAccount::Group) {
        Some(_) => "control groups",
        None => "processes and their ended children, in ticks of 10 ms",
    }
}

fn group() -> Option<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let name = format!("pointsman-compare-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = mount(&mounts)?.join(name);
    fs::create_dir(&folder).ok()?;
    Some(folder)
}

fn enter(folder: PathBuf, process: u32) -> Option<PathBuf> {
    let entered = fs::write(folder.join("cgroup.procs"), process.to_string());
    if entered.is_err() {
        let _ = fs::remove_dir(&folder);
    }
    entered.ok().map(|()| folder)
}

fn mount(mounts: &str) -> Option<&Path> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(2) == Some(&"cgroup2"))
        .find_map(|fields| fields.get(1).copied())
        .map(Path::new)
}

fn usage(text: &str) -> Option<Duration> {
    let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(micros.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_beside_the_first() {
        let mounts =
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount(mounts), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(mount("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn usage_is_read_in_microseconds() {
        assert_eq!(usage("usage_usec 1500\nuser_usec 1000\n"), Some(Duration::from_micros(1500)));
        assert_eq!(usage("user_usec 1000\n"), None);
    }
}
