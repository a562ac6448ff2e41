//! What stands in the log of an agent. klog puts a letter first: W, E and F are for the operator.

use test_support::{NodeAgent, wait_until};

use crate::release;
use crate::site::SOON;

/// Lines with all of these words.
pub fn lines<'a>(log: &'a str, words: &[&str]) -> Vec<&'a str> {
    log.lines().filter(|line| words.iter().all(|word| line.contains(word))).collect()
}

pub fn errors(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.starts_with('E')).collect()
}

/// Warnings and worse, but for the one that the tests ask for by choosing no mode, and the one about a kind that an old
/// release does not have.
pub fn complaints(log: &str) -> Vec<&str> {
    let no_ranges = |line: &str| {
        !release::has_service_cidrs() && line.contains("Continuing without") && line.contains("servicecidrs")
    };
    let complaints = log.lines().filter(|line| line.starts_with(['W', 'E', 'F']));
    complaints.filter(|line| !line.contains("No proxy mode is set") && !no_ranges(line)).collect()
}

/// Enough of a log for a failure's message.
pub fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n")
}

/// A place in the log of an agent, which goes on through all of its lives.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Mark {
    /// What is said from now on. Taken before a launch: what that life says.
    pub fn now(agent: &NodeAgent) -> Mark {
        Mark(agent.log().len())
    }

    /// Wait for a line after the mark with all of these words.
    pub fn await_line(self, agent: &NodeAgent, words: &[&str]) {
        self.await_lines(agent, words, 1);
    }

    pub fn await_lines(self, agent: &NodeAgent, words: &[&str], count: usize) {
        // Twice: the agent itself waits half a minute for some things.
        let said = wait_until(2 * SOON, || lines(self.rest(&agent.log()), words).len() >= count);
        let log = agent.log();
        assert!(said, "fewer than {count} lines with {words:?} in the log:\n{}", self.rest(&log));
    }

    fn rest(self, log: &str) -> &str {
        log.get(self.0..).unwrap_or_default()
    }
}
