//! What tells one server from the other where it is bound, and what is said when it cannot be.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use cluster::apiserver::Event;
use config::Options;

use crate::events;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Probes,
    /// Metrics and what is served beside them.
    Pages,
}

impl Role {
    pub(super) fn address(self, options: &Options) -> Option<SocketAddr> {
        match self {
            Role::Probes => options.healthz_bind_address,
            Role::Pages => options.metrics_bind_address,
        }
    }

    /// Connections at a time. Metrics are large, and a few scrapers all who read them.
    pub(super) fn seats(self) -> usize {
        match self {
            Role::Probes => 256,
            Role::Pages => 16,
        }
    }

    pub(super) fn what(self) -> &'static str {
        match self {
            Role::Probes => "probes",
            Role::Pages => "metrics",
        }
    }

    /// What to do where it could not be bound.
    pub(super) fn remedy(self, why: &io::Error) -> String {
        let setting = match self {
            Role::Probes => "healthzBindAddress (--healthz-bind-address)",
            Role::Pages => "metricsBindAddress (--metrics-bind-address)",
        };
        match why.kind() {
            io::ErrorKind::AddrNotAvailable => {
                format!("this node does not have the address; change {setting}")
            }
            _ => format!("stop the process that holds the port or change {setting}"),
        }
    }

    pub(super) fn event(self, node: &str, address: SocketAddr, why: &io::Error) -> Event {
        match self {
            Role::Probes => events::probes_not_served(node, address, why),
            Role::Pages => events::metrics_not_served(node, address, why),
        }
    }
}

/// An address could not be bound.
#[derive(Debug)]
pub struct BindError {
    pub(super) role: Role,
    pub(super) address: SocketAddr,
    pub(super) source: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BindError { role, address, source } = self;
        write!(f, "cannot serve the {} on {address}: {source}; {}", role.what(), role.remedy(source))
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
