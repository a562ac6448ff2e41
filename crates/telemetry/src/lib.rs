//! What an operator sees of the agent: its log, its metrics and its profiles. Serving them is not done here.

pub mod logging;
pub mod metrics;
pub mod profiling;
