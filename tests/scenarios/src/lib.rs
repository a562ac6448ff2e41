//! What tests share (`test_support`): manifests, the real binary in a sandbox, and the table of packet flows.
//!
//! [`flows`] says where packets must go, whatever mode carries them there; [`interpreted`] asks the rules
//! through the simulator, [`packets`] asks the kernel. [`world`] holds the services the table is about, and
//! [`directory`] who listens where. Expectations live in the table only, never in the two ways of asking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test harness may fail loudly")]

pub mod binary;
pub mod dice;
pub mod directory;
pub mod flows;
pub mod interpreted;
pub mod manifest;
pub mod modes;
pub mod netstat;
pub mod node_agent;
pub mod packets;
pub mod protobuf;
pub mod report;
pub mod seccomp;
pub mod simulated;
pub mod tools;
pub mod variant;
pub mod wait;
pub mod world;

pub use dice::Dice;
pub use manifest::{EndpointManifest, ManifestFolder, ServiceManifest, SliceManifest};
pub use modes::Carrier;
pub use node_agent::{LEAVE_ALONE, NodeAgent, Source};
pub use report::{Case, Report, Verdict};
pub use variant::SettingsVariant;
pub use wait::{ANSWER, SOON, fewer, let_pass, patient, wait_until, watch_for};
