//! Services for which no rules can be written.

use std::error::Error;
use std::fmt;

use model::Family;

/// There are services of the family, and no iptables tools that could write their rules.
#[derive(Debug)]
pub struct NoTools(pub Family);

impl fmt::Display for NoTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.0;
        write!(
            f,
            "there are {family} services, but no working iptables tools for {family}; see the log from startup"
        )
    }
}

impl Error for NoTools {}
