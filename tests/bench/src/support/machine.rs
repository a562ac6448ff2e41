//! The machine that numbers come from.

use serde::{Deserialize, Serialize};

/// What else the numbers depend on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub kernel: String,
    pub processors: usize,
    /// `/proc/loadavg` before and after.
    pub load: [String; 2],
}

impl Machine {
    /// Call it before the measurement, and [`Machine::done`] after it.
    pub fn here() -> Machine {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(0, |count| count.get());
        Machine { kernel: release.trim().to_owned(), processors, load: [load_average(), String::new()] }
    }

    pub fn done(&mut self) {
        self.load[1] = load_average();
    }

    /// More wanted to run before we began than there are processors for.
    pub fn is_busy(&self) -> bool {
        let load = self.load[0].split(' ').next().and_then(|load| load.parse::<f64>().ok());
        load.is_some_and(|load| load > self.processors as f64)
    }
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}
