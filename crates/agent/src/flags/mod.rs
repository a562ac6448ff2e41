//! The command line: parse → validate → [`Options`]. Every error is found before any is reported.

mod definitions;
mod resolve;

use std::ffi::OsString;

use crate::{ContentType, Options, demo};
use definitions::{FLAGS, Flag, Group, NOT_YET};

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    Run(Box<Options>),
    Demo(demo::Invocation),
    Help,
    Version,
}

/// Flags as they were given, checked one by one but not against each other.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    help: bool,
    version: bool,
    manifests: String,
    kubeconfig: String,
    master: String,
    content_type: ContentType,
    qps: f32,
    burst: u32,
    proxy_mode: String,
    hostname_override: String,
    cluster_cidr: String,
    detect_local_mode: String,
    pod_bridge_interface: String,
    pod_interface_name_prefix: String,
    nodeport_addresses: String,
    masquerade_all: bool,
    masquerade_bit: u8,
    sync_period: std::time::Duration,
    min_sync_period: std::time::Duration,
    healthz_bind_address: String,
    bind_address_hard_fail: bool,
    verbosity: u8,
}

impl Default for Raw {
    fn default() -> Raw {
        Raw {
            help: false,
            version: false,
            manifests: String::new(),
            kubeconfig: String::new(),
            master: String::new(),
            content_type: ContentType::Protobuf,
            qps: 5.0,
            burst: 10,
            proxy_mode: String::new(),
            hostname_override: String::new(),
            cluster_cidr: String::new(),
            detect_local_mode: "ClusterCIDR".into(),
            pod_bridge_interface: String::new(),
            pod_interface_name_prefix: String::new(),
            nodeport_addresses: String::new(),
            masquerade_all: false,
            masquerade_bit: 14,
            sync_period: std::time::Duration::from_secs(30),
            min_sync_period: std::time::Duration::from_secs(1),
            healthz_bind_address: "0.0.0.0:10256".into(),
            bind_address_hard_fail: false,
            verbosity: 2,
        }
    }
}

/// Parse and validate. The message lists every error, one a line.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "demo").is_some() {
        let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        return demo::parse(arguments).map(Command::Demo);
    }
    let mut errors = Vec::new();
    let raw = read(arguments, &mut errors);
    if raw.help {
        return Ok(Command::Help);
    }
    if raw.version {
        return Ok(Command::Version);
    }
    let options = resolve::resolve(&raw, &mut errors);
    match options {
        Some(options) if errors.is_empty() => Ok(Command::Run(Box::new(options))),
        _ => Err(errors.join("\nkube-proxy: ")),
    }
}

fn read(arguments: impl Iterator<Item = OsString>, errors: &mut Vec<String>) -> Raw {
    let mut raw = Raw::default();
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned()).peekable();
    while let Some(argument) = arguments.next() {
        let Some(body) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            errors.push(format!("unexpected argument {argument:?}; kube-proxy takes flags only, see --help"));
            continue;
        };
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        let Some(flag) = FLAGS.iter().find(|flag| flag.name == name || flag.short == Some(name)) else {
            errors.push(unknown(name));
            // What follows is its value, if it is none of ours.
            if NOT_YET.contains(&name) && value.is_none() {
                arguments.next_if(|next| !next.starts_with('-'));
            }
            continue;
        };
        let value = match (value, flag.is_switch()) {
            (Some(value), _) => Some(value),
            (None, true) => Some("true".to_owned()),
            (None, false) => arguments.next(),
        };
        let outcome = match value {
            Some(value) => (flag.set)(&mut raw, value.trim()),
            None => Err("a value is missing".to_owned()),
        };
        if let Err(problem) = outcome {
            errors.push(format!("--{}: {problem}", flag.name));
        }
    }
    raw
}

fn unknown(name: &str) -> String {
    match NOT_YET.contains(&name) {
        true => format!("--{name} is not in this build yet; see --help"),
        false => format!("unknown flag --{name}; see --help"),
    }
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Pointsman, a drop-in kube-proxy: turns Services and EndpointSlices into kernel forwarding rules.\n\n\
         Usage:\n  kube-proxy [flags]\n  kube-proxy --manifests PATH [flags]\n  kube-proxy demo [--shell]      try it in a sandbox of network namespaces\n",
    );
    for group in Group::ALL {
        text.push_str(&format!("\n{}:\n", group.title()));
        for flag in FLAGS.iter().filter(|flag| flag.group == group) {
            text.push_str(&help_line(flag));
        }
    }
    text
}

fn help_line(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
    let value = flag.value.map(|value| format!(" {value}")).unwrap_or_default();
    format!("  {short}--{}{value}\n        {}\n", flag.name, flag.help)
}

#[cfg(test)]
mod tests;
