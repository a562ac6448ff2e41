//! Parts that run in a process of their own, so that memory is that of the part alone. A part travels as
//! JSON on the command line, its result as JSON on standard output.

use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::iptables::{loads, packets};
use crate::{Failure, counting, load, wide};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Part {
    Load(load::Scope),
    Wide { endpoints: u32 },
    Counting { services: u32 },
    IptablesLoad(loads::Scope),
    FirstPacket(packets::Scope),
}

/// Run the part in this process.
pub(crate) fn run(part: &Part) -> Result<String, Failure> {
    Ok(match part {
        Part::Load(scope) => serde_json::to_string(&load::measure(scope)?)?,
        Part::Wide { endpoints } => serde_json::to_string(&wide::measure(*endpoints)?)?,
        Part::Counting { services } => serde_json::to_string(&counting::measure(*services)?)?,
        Part::IptablesLoad(scope) => serde_json::to_string(&loads::measure(scope)?)?,
        Part::FirstPacket(scope) => serde_json::to_string(&packets::measure(scope)?)?,
    })
}

/// Run the part in a process of its own.
pub(crate) fn start<T: DeserializeOwned>(part: &Part) -> Result<T, Failure> {
    let output = Command::new(std::env::current_exe()?)
        .args(["child", &serde_json::to_string(part)?])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the process that measured {part:?} ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
