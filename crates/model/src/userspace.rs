//! What an operator chooses for mode userspace. Plain values: the configuration fills them in, the mode carries them out.

use std::time::Duration;

/// Settings that only mode userspace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserspaceSettings {
    /// How long a UDP flow lives without a datagram.
    pub udp_idle: Duration,
    /// How long open connections may go on when the agent stops.
    pub drain: Duration,
}

impl Default for UserspaceSettings {
    /// Conntrack keeps a UDP flow for 30 seconds, too.
    fn default() -> UserspaceSettings {
        UserspaceSettings { udp_idle: Duration::from_secs(30), drain: Duration::from_secs(10) }
    }
}
