//! The tools of one variant for IPv4 with a clock on them. They work in the calling thread's namespace.

use std::time::{Duration, Instant};

use dataplane::Setup;
use dataplane::iptables::Iptables;
use kernel::iptables::{self, Stamp, Table, Tables, Terms, ToolError, Toolbox};
use model::Family;

use crate::Failure;
use crate::bench::{Bench, Clocked};
use crate::load::{MASQUERADE_MARK, detector};
use bench_support::variant::ToolVariant;

pub(crate) struct Tools {
    tools: iptables::Tools,
    spent: Duration,
}

impl Tools {
    pub(crate) fn find(variant: ToolVariant) -> Result<Tools, Failure> {
        // Of its own, so that no other process waits for us nor we for it.
        let lock = std::env::temp_dir().join(format!("pointsman-bench-{}-xtables.lock", std::process::id()));
        let toolbox =
            Toolbox { terms: Terms { lock_file: Some(lock), ..Terms::default() }, ..Toolbox::default() };
        Ok(Tools { tools: toolbox.of(variant.of_kernel(), false)?, spent: Duration::ZERO })
    }

    fn clocked<T>(&mut self, work: impl FnOnce(&mut iptables::Tools) -> T) -> T {
        let started = Instant::now();
        let done = work(&mut self.tools);
        self.spent += started.elapsed();
        done
    }
}

impl Tables for Tools {
    fn save(&mut self, table: Table) -> Result<String, ToolError> {
        self.clocked(|tools| tools.save(table))
    }

    fn outline(&mut self, table: Table, rules: &[(&str, &str)]) -> Result<String, ToolError> {
        self.clocked(|tools| tools.outline(table, rules))
    }

    fn restore(&mut self, script: &str) -> Result<(), ToolError> {
        self.clocked(|tools| tools.restore(script))
    }

    fn stamp(&mut self) -> Option<Stamp> {
        self.tools.stamp()
    }

    fn has_random_fully(&self) -> bool {
        self.tools.has_random_fully()
    }
}

impl Clocked for Iptables<Tools> {
    fn take(&mut self) -> Duration {
        self.tables(Family::V4).map_or(Duration::ZERO, |tools| std::mem::take(&mut tools.spent))
    }
}

impl Bench<Iptables<Tools>> {
    pub(crate) fn iptables(variant: ToolVariant) -> Result<Bench<Iptables<Tools>>, Failure> {
        Bench::new(move || {
            let setup = Setup {
                detector: detector()?,
                masquerade_mark: MASQUERADE_MARK,
                drop_invalid: true,
                of_mode: model::ModeSettings::default(),
            };
            Ok(Iptables::new([Some(Tools::find(variant)?), None], &setup))
        })
    }
}
