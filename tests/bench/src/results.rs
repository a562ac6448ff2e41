//! Everything that was measured, as it is written to JSON.

use serde::{Deserialize, Serialize};

use crate::iptables::IptablesResults;
use crate::isolation::IsolationResult;
use crate::questions::QuestionsResult;
use crate::reactions::ReactionResult;
use crate::userspace::{Crowd, UserspaceResult};
use bench_support::gauge::{Cost, Resident, Summary};
use bench_support::machine::Machine;

#[derive(Debug, Default, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) sizes: Vec<SizeResult>,
    pub(crate) wide: Option<WideResult>,
    pub(crate) counting: Option<CountingResult>,
    pub(crate) iptables: IptablesResults,
    pub(crate) isolation: Vec<IsolationResult>,
    pub(crate) reactions: Vec<ReactionResult>,
    pub(crate) questions: Option<QuestionsResult>,
    pub(crate) crowd: Option<Crowd>,
    pub(crate) userspace: Option<UserspaceResult>,
    pub(crate) agents: Vec<AgentResult>,
    pub(crate) yardsticks: Vec<YardstickResult>,
    pub(crate) skipped: Vec<String>,
    pub(crate) limits: Vec<Limit>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SizeResult {
    pub(crate) services: u32,
    pub(crate) endpoints: u32,
    pub(crate) ipv6: bool,
    pub(crate) full: FullLoad,
    pub(crate) changes: Option<Changes>,
    /// A new agent over the rules of the one before.
    pub(crate) restart: Summary,
    pub(crate) watched: Option<Watched>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FullLoad {
    /// Of a fresh process.
    pub(crate) first: Cost,
    /// The first and more into an emptied kernel.
    pub(crate) loads: Summary,
    pub(crate) bytes: usize,
    /// With the cluster state, before any plan.
    pub(crate) state_only: Resident,
    pub(crate) resident: Resident,
    /// After free pages were given back.
    pub(crate) trimmed: Resident,
    pub(crate) kernel_kib: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Changes {
    pub(crate) replaced: Summary,
    pub(crate) added: Summary,
    pub(crate) removed: Summary,
    pub(crate) service_added: Summary,
    pub(crate) service_removed: Summary,
    pub(crate) many: Summary,
}

/// With a subscription to the kernel's notifications open.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) full: Summary,
    pub(crate) replaced: Summary,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WideResult {
    pub(crate) endpoints: u32,
    pub(crate) load: Cost,
    pub(crate) replaced: Summary,
    pub(crate) added: Summary,
    pub(crate) removed: Summary,
}

/// Each without counters and with them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CountingResult {
    pub(crate) services: u32,
    pub(crate) load: [Summary; 2],
    pub(crate) restart: [Summary; 2],
    pub(crate) service_added: [Summary; 2],
    pub(crate) kernel_kib: [u64; 2],
    /// All counters read.
    pub(crate) reading: Summary,
    /// Through a service, and past it.
    pub(crate) packets: [PacketCost; 2],
}

/// The whole way of a packet from one pod to another, without counters and with them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PacketCost {
    pub(crate) best_ns: [f64; 2],
    pub(crate) median_ns: [f64; 2],
}

#[derive(Debug, Serialize)]
pub(crate) struct AgentResult {
    pub(crate) services: u32,
    pub(crate) manifest_bytes: u64,
    pub(crate) ready_ms: f64,
    pub(crate) ready_cpu_ms: f64,
    pub(crate) resident: Resident,
    pub(crate) idle_seconds: f64,
    /// Clock ticks of 10 ms, as the kernel counts them.
    pub(crate) idle_ticks: u64,
    /// The same by the scheduler's own clock.
    pub(crate) idle_us: f64,
    pub(crate) scrape: ScrapeResult,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct ScrapeResult {
    pub(crate) bytes: usize,
    pub(crate) idle: Summary,
    /// While all rules of IPv4 were rewritten.
    pub(crate) busy: Summary,
    /// The shortest of some rewrites.
    pub(crate) rewrite_ms: f64,
    /// The same with scrapes in between all the time.
    pub(crate) scraped_rewrite_ms: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct YardstickResult {
    pub(crate) services: u32,
    pub(crate) text_bytes: u64,
    pub(crate) wall_ms: f64,
    pub(crate) cpu_ms: f64,
    pub(crate) peak_kib: u64,
    /// How many of our full loads fit into it.
    pub(crate) ratio: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Limit {
    pub(crate) what: String,
    pub(crate) measured: String,
    pub(crate) limit: String,
    pub(crate) kept: bool,
}
