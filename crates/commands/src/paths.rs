//! Where the agent answers questions. Paths, parameters and fields stay: see docs/ask.md.

pub const EXPLAIN: &str = "/pointsman/v1/explain";
pub const DIFF: &str = "/pointsman/v1/diff";
pub const TRACE: &str = "/pointsman/v1/trace";
pub const SERVICES: &str = "/pointsman/v1/services";
pub const RULESET: &str = "/pointsman/v1/ruleset";
pub const FACTS: &str = "/pointsman/v1/facts";
pub const LOG: &str = "/pointsman/v1/log";
/// Of every answer, so that a command knows an agent of another version.
pub const VERSION_HEADER: &str = "pointsman-version";
/// In answers that leave something out because there is too much of it.
pub const TRUNCATED_HEADER: &str = "pointsman-truncated";
