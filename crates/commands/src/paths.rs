//! Where the agent answers questions. Paths, parameters and fields stay: see docs/ask.md.

pub const EXPLAIN: &str = "/pointsman/v1/explain";
pub const DIFF: &str = "/pointsman/v1/diff";
pub const SERVICES: &str = "/pointsman/v1/services";
/// Of every answer, so that a command knows an agent of another version.
pub const VERSION_HEADER: &str = "pointsman-version";
