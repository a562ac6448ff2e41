//! The text of `--help`.

use super::orders::ORDERS;
use crate::OF_A_PROXY;
use crate::settings::{self, Group, Setting, Usage};

const HEAD: &str = "\
Pointsman, a drop-in kube-proxy: turns Services and EndpointSlices into kernel forwarding rules.

Usage:
  kube-proxy --config FILE           in a cluster, as kubeadm starts it
  kube-proxy [flags]                 in a cluster, or with --kubeconfig from outside
  kube-proxy --manifests PATH        without a cluster
  kube-proxy explain ADDRESS:PORT    ask the agent on this node what happens to a packet, and why
  kube-proxy services                ask it what is programmed
  kube-proxy diff                    ask it whether the kernel holds what was written
  kube-proxy bundle [FILE]           write an archive for a bug report
  kube-proxy trace ADDRESS[:PORT]    ask it to show new connections, where they go and why not
  kube-proxy check PATH...           check manifests before anything runs
  kube-proxy completion SHELL        completions for bash, zsh or fish

Defaults are in brackets. * has no effect in this build.
";

pub fn help() -> String {
    let mut text = HEAD.to_owned();
    for group in Group::all() {
        let orders = ORDERS.iter().map(|order| (order.usage, String::new(), false));
        let settings = settings::all()
            .filter_map(|setting| Some((setting.flag?, default(setting), !setting.works_somewhere())));
        let of_group = orders.chain(settings).filter(|(usage, ..)| usage.group == group);
        let entries: String =
            of_group.map(|(usage, default, is_idle)| entry(&usage, &default, is_idle)).collect();
        // Not every mode has flags of its own.
        if !entries.is_empty() {
            text.push_str(&format!("\n{}:\n{entries}", group.title()));
        }
    }
    text
}

fn default(setting: &Setting) -> String {
    let node = setting.default();
    if node.is_zero() { String::new() } else { format!(" [{}]", node.describe().trim_matches('"')) }
}

fn entry(usage: &Usage, default: &str, is_idle: bool) -> String {
    let short = match usage.name {
        "help" => "-h, --",
        "v" => "-v, --",
        _ => "--",
    };
    let value = if usage.value.is_empty() { String::new() } else { format!(" {}", usage.value) };
    let mark = if is_idle { "*" } else { " " };
    let help = match usage.name {
        "feature-gates" => wrap(&format!("{} {}", usage.help, gates()), 8),
        _ => wrap(usage.help, 8),
    };
    format!(" {mark}{short}{}{value}{default}\n{help}\n", usage.name)
}

fn gates() -> String {
    let gates: Vec<String> =
        OF_A_PROXY.iter().map(|gate| format!("{}={}", gate.name, gate.default)).collect();
    format!("Those that concern a proxy, with their defaults: {}.", gates.join(", "))
}

fn wrap(text: &str, indent: usize) -> String {
    const WIDTH: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if indent + line.len() + 1 + word.len() <= WIDTH => line.push_str(&format!(" {word}")),
            _ => lines.push(word.to_owned()),
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("{:indent$}{line}", "")).collect();
    lines.join("\n")
}
