//! How long the apiserver may take for what.

use std::time::Duration;

/// The defaults are what an apiserver needs on a bad day; tests of bad days are more impatient.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// An answer has to begin by then; apiservers answer watches at once and lists from memory.
    pub answer: Duration,
    /// In the middle of a list something comes all the time.
    pub list_silence: Duration,
    /// Servers send a bookmark about every minute: one that is silent for longer than this may hang.
    pub watch_silence: Duration,
    /// A watch that ends sooner did not work, whatever the server says.
    pub shortest_watch: Duration,
    /// A kind that the server does not have may come with its next version.
    pub absent_kind: Duration,
    /// An exec plugin has to be done by then, and is ended if it is not.
    pub exec_plugin: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            answer: Duration::from_secs(30),
            list_silence: Duration::from_secs(30),
            watch_silence: Duration::from_secs(100),
            shortest_watch: Duration::from_secs(1),
            absent_kind: Duration::from_secs(60),
            exec_plugin: Duration::from_secs(60),
        }
    }
}
