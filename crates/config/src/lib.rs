//! `KubeProxyConfiguration`: one definition of every setting, read from a file or from flags, written back as
//! YAML, and turned into [`Options`]. Nothing here waits, watches or asks the kernel.
//!
//! [`settings`] is the table: field path, flag, help, effect, how a change is taken on. The defaults are those of [`Configuration`]. The
//! command line itself is read in [`flags`].

mod address;
mod choice;
mod complete;
mod configuration;
mod default_mode;
mod differences;
mod duration;
mod file;
pub mod flags;
#[doc(hidden)]
pub mod fuzz;
pub mod gates;
pub mod json;
mod logging;
mod modes;
mod node;
mod nodeport;
mod options;
mod origin;
mod refusal;
mod resolve;
pub mod settings;
pub mod suggest;
mod value;
pub mod version;
pub mod yaml;

pub use address::{ClusterCidrs, Endpoint, Prefixes};
pub use choice::{ContentType, LocalMode, LogFormat};
pub use configuration::{ClientConnection, Configuration, Conntrack, DetectLocalNames, Winkernel};
pub use default_mode::DefaultMode;
pub use differences::{Difference, differences};
pub use duration::parse as parse_duration;
pub use file::{ConfigFile, read_file};
pub use gates::{FeatureGates, OF_A_PROXY};
pub use logging::{FlushFrequency, Logging, Modules, Quantity, Stream};
pub use model::Mode;
pub use modes::{Iptables, Ipvs, Nftables, Sections, Userspace};
pub use node::Node;
pub use nodeport::{NodePortItem, NodePortItems};
pub use options::{
    ApiserverOptions, ConntrackOptions, DetectLocal, NodeOptions, Options, PageOptions, Source,
};
pub use refusal::Refusal;
pub use resolve::Resolved;
pub use value::{Period, Rate, Span, Value, Whole};

#[cfg(test)]
mod on_change_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upstream_tests;
