//! `KubeProxyConfiguration`: one definition of every setting, read from a file or from flags, written back as
//! YAML, and turned into [`crate::Options`].
//!
//! [`settings`] is the table: field path, flag, help, effect. The defaults are those of [`Configuration`]. The
//! command line itself is read in `flags`.

mod address;
mod choice;
mod complete;
mod configuration;
mod default_mode;
mod differences;
mod file;
pub(crate) mod gates;
pub(crate) mod json;
mod logging;
mod node;
mod nodeport;
mod origin;
mod refusal;
mod resolve;
pub(crate) mod settings;
mod value;
pub(crate) mod yaml;

pub use address::{ClusterCidrs, Endpoint, Prefixes};
pub use choice::{ContentType, LocalMode, LogFormat, Mode};
pub use configuration::{
    ClientConnection, Configuration, Conntrack, DetectLocalNames, Iptables, Ipvs, Nftables, Winkernel,
};
pub use default_mode::DefaultMode;
pub use file::ConfigFile;
pub use gates::FeatureGates;
pub(crate) use gates::OF_A_PROXY;
pub use logging::{FlushFrequency, Logging, Modules, Quantity, Stream};
pub use nodeport::{NodePortItem, NodePortItems};
pub use value::{Period, Rate, Span, Whole};

pub(crate) use complete::{Completed, complete, ineffective};
pub(crate) use differences::differences;
pub(crate) use file::{Loaded, load, read_text};
pub(crate) use node::Node;
pub(crate) use origin::{Given, Origin, Place};
pub(crate) use refusal::Refusal;
pub(crate) use resolve::{SourceFlags, check_mode, resolve};
pub(crate) use value::{Value, is_number};
pub(crate) use yaml::{quoted, to_yaml};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod upstream_tests;
