//! Reading clocks and counters: wall and CPU time of a stretch of work, memory of a process and of the kernel.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A running measurement of the calling thread.
pub struct Meter {
    wall: Instant,
    cpu: Duration,
}

/// What a stretch of work took, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    pub wall_us: f64,
    /// Of the thread, system calls included.
    pub cpu_us: f64,
    /// The part of the wall time that went into commits.
    pub kernel_us: f64,
}

impl Meter {
    pub fn start() -> Meter {
        let cpu = thread_cpu();
        Meter { wall: Instant::now(), cpu }
    }

    pub fn stop(self, in_kernel: Duration) -> Cost {
        let wall = self.wall.elapsed();
        let cpu = thread_cpu().saturating_sub(self.cpu);
        Cost { wall_us: micros(wall), cpu_us: micros(cpu), kernel_us: micros(in_kernel) }
    }
}

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Many costs of the same thing, told in a few numbers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    pub samples: usize,
    /// What is possible: other work on the machine only adds.
    pub best_us: f64,
    pub median_us: f64,
    pub p99_us: f64,
    pub cpu_median_us: f64,
    pub kernel_median_us: f64,
}

impl Summary {
    pub fn of(costs: &[Cost]) -> Summary {
        Summary {
            samples: costs.len(),
            best_us: of_costs(costs, 0.0, |cost| cost.wall_us),
            median_us: of_costs(costs, 0.5, |cost| cost.wall_us),
            p99_us: of_costs(costs, 0.99, |cost| cost.wall_us),
            cpu_median_us: of_costs(costs, 0.5, |cost| cost.cpu_us),
            kernel_median_us: of_costs(costs, 0.5, |cost| cost.kernel_us),
        }
    }
}

fn of_costs(costs: &[Cost], share: f64, value: impl Fn(&Cost) -> f64) -> f64 {
    quantile(&costs.iter().map(value).collect::<Vec<f64>>(), share)
}

/// The value below which `share` of them lie; 0 of none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

/// Memory of a process in KiB: now, and the most it ever was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resident {
    pub now_kib: u64,
    pub peak_kib: u64,
}

impl Resident {
    /// `None` once the process has ended.
    pub fn of(process: &str) -> Option<Resident> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        Some(Resident { now_kib: field(&status, "VmRSS:")?, peak_kib: field(&status, "VmHWM:")? })
    }
}

/// CPU time of a process, user and system, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ticks(pub u64);

impl Ticks {
    /// `None` once the process has ended.
    pub fn of(process: &str) -> Option<Ticks> {
        Ticks::sum(process, 11, 2)
    }

    /// With its ended and awaited children.
    pub fn of_tree(process: &str) -> Option<Ticks> {
        Ticks::sum(process, 11, 4)
    }

    /// Of the ended and awaited children of this process.
    pub fn of_children() -> Option<Ticks> {
        Ticks::sum("self", 13, 2)
    }

    /// Linux counts 100 a second for user space, whatever its own clock.
    pub fn millis(self) -> f64 {
        self.0 as f64 * 10.0
    }

    /// So many fields from one on, counted after the name, which may hold spaces.
    fn sum(process: &str, first: usize, count: usize) -> Option<Ticks> {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, rest) = text.rsplit_once(") ")?;
        Some(Ticks(
            rest.split(' ').skip(first).take(count).filter_map(|ticks| ticks.parse::<u64>().ok()).sum(),
        ))
    }
}

/// What the kernel holds for itself, in KiB, where rules are: slab, per-CPU and vmalloc memory. Of the whole
/// machine, so others show in it.
pub fn kernel_memory_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    ["SUnreclaim:", "Percpu:", "VmallocUsed:"].iter().filter_map(|name| field(&text, name)).sum()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_and_many() {
        let costs: Vec<Cost> = (1..=101)
            .rev()
            .map(|n| Cost { wall_us: f64::from(n), cpu_us: 0.0, kernel_us: 2.0 * f64::from(n) })
            .collect();
        let summary = Summary::of(&costs);
        assert_eq!((summary.best_us, summary.median_us, summary.p99_us), (1.0, 51.0, 100.0));
        assert_eq!(summary.kernel_median_us, 102.0);
        assert_eq!(Summary::of(&costs[..1]).p99_us, 101.0);
        assert_eq!(Summary::of(&[]).median_us, 0.0);
    }

    #[test]
    fn fields_of_proc_files() {
        let text = "MemTotal:       100 kB\nSUnreclaim:      42 kB\n";
        assert_eq!(field(text, "SUnreclaim:"), Some(42));
        assert_eq!(field(text, "Percpu:"), None);
    }
}
