//! An explanation as a person would tell it.

use std::borrow::Cow;
use std::fmt::Write as _;

use dataplane::{Answer, Holder, Inspection, Pinned};
use model::{
    Client, ClientKind, Family, Fate, LocalDetector, MasqueradeCause, NotUsed, Refusal, Role, TrafficPolicy,
};

use super::{Read, advice};
use crate::questions::{Explanation, Explanations};

/// Rules differ from the plan in so many places before the rest is only counted.
const MOST_DIFFERENCES: usize = 20;
/// Endpoints with their reasons that are listed for people.
const MOST_LISTED: usize = 50;
/// Endpoints that lead nowhere.
const MOST_WARNINGS: usize = 5;
const WIDTH: usize = 11;

/// Lines with a word at their left.
struct Lines(String);

impl Lines {
    /// Names come from objects that anybody may have written, and must not begin a line of their own.
    fn line(&mut self, label: &str, text: impl AsRef<str>) {
        let is_control = |c: char| c.is_control();
        let text: Cow<'_, str> = match text.as_ref() {
            text if text.contains(is_control) => text.escape_debug().to_string().into(),
            text => text.into(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{label:<WIDTH$}{text}");
    }
}

pub(crate) fn text(explanations: &Explanations, read: &[Read]) -> String {
    let mut lines = Lines(String::new());
    for (number, (one, read)) in explanations.each.iter().zip(read).enumerate() {
        if number > 0 {
            lines.0.push('\n');
        }
        write(&mut lines, explanations, one, read);
    }
    if explanations.left_out > 0 {
        lines.0.push('\n');
        lines.line("", format!("and {} more addresses: ask for one of them", explanations.left_out));
    }
    for family in &explanations.unwritten {
        lines.0.push('\n');
        lines.line("", format!("not explained for {family}: nothing is programmed there yet"));
    }
    if let Some(problem) = &explanations.problem {
        lines.line("", problem);
    }
    lines.0
}

fn write(lines: &mut Lines, all: &Explanations, one: &Explanation, read: &Read) {
    let explained = &one.explained;
    let (to, protocol) = (explained.to, explained.protocol);
    lines.line("Packet", format!("{protocol} to {to}, at node {} in mode {}", all.node, all.mode));
    match &explained.owner {
        Some(owner) => owner_lines(lines, one, owner, read),
        None => {
            lines.line("Service", "none has this address and port");
            for (claim, service) in explained.neighbours.iter().take(10) {
                lines.line("", format!("{service} has {claim}"));
            }
        }
    }
    let mut listed: Option<&Answer> = None;
    for answer in &explained.answers {
        client_lines(lines, all, one, answer, read);
        if !answer.known.is_empty() && listed.is_none_or(|listed| listed.known != answer.known) {
            endpoint_lines(lines, answer);
            listed = Some(answer);
        }
    }
    let dead_ends = one.dead_ends.iter();
    for (ip, why) in dead_ends.clone().take(MOST_WARNINGS) {
        lines.line("Warning", format!("endpoint {ip} {why}"));
    }
    if let more @ 1.. = dead_ends.len().saturating_sub(MOST_WARNINGS) {
        lines.line("", format!("and {more} more endpoints like these"));
    }
    kernel_lines(lines, one, read);
    for line in advice::advice(all, one, read) {
        lines.line("To do", line);
    }
}

fn owner_lines(lines: &mut Lines, one: &Explanation, owner: &Holder, read: &Read) {
    let role = match owner.role {
        Role::ClusterIp => "cluster IP",
        Role::ExternalIp => "external IP",
        Role::LoadBalancerIp => "load-balancer IP",
        Role::NodePort => "node port",
    };
    let port = if owner.port.is_empty() { String::new() } else { format!(", port {}", owner.port) };
    lines.line("Service", format!("{}{port}: this is its {role}", owner.service));
    let (count, rivals) = &owner.rivals;
    if *count > 0 {
        let names: Vec<&str> = rivals.iter().map(|name| &**name).collect();
        let why =
            "the better claim wins: cluster IP, then load-balancer IP, then the older service, then the name";
        lines.line(
            "",
            format!("{count} other claims on this address are not served: {}; {why}", names.join(", ")),
        );
    }
    if let Some((name, policy)) = one.policy {
        let (word, meaning) = match policy {
            TrafficPolicy::Cluster => ("Cluster", "endpoints on any node"),
            TrafficPolicy::Local => ("Local", "only endpoints on this node"),
        };
        lines.line("Policy", format!("{name}: {word}, {meaning}"));
    }
    if let Some((sources, count)) = &owner.sources {
        let names: Vec<String> = sources.iter().map(ToString::to_string).collect();
        let rest = if *count > names.len() { ", ..." } else { "" };
        lines.line("Sources", format!("only {}{rest}; all others are dropped", names.join(", ")));
    }
    if let Some(seconds) = owner.affinity_seconds {
        let pin = match read {
            Some(Ok(Inspection { pin: Some(pin), .. })) => {
                let left =
                    pin.left.map(|left| format!(" for another {} s", left.as_secs())).unwrap_or_default();
                format!("; this client is pinned to {}{left}", pin.to)
            }
            _ => String::new(),
        };
        lines.line("Affinity", format!("a client keeps its endpoint for {seconds} s{pin}"));
    }
    if owner.is_large {
        lines.line("", "the service is too large to list its endpoints; this is what was written last");
    }
}

/// Where a client is pinned, if that was looked up: only for the first of them.
pub(super) fn pin(one: &Explanation, answer: &Answer, read: &Read) -> Option<Pinned> {
    let asked = one.explained.answers.first().and_then(|first| first.client.ip);
    let is_asked = asked.is_some() && answer.client.ip == asked;
    let Some(Ok(Inspection { pin, .. })) = read else { return None };
    pin.filter(|_| is_asked && matches!(answer.fate, Fate::Forward { .. }))
}

/// Where the packet goes, if it is forwarded.
fn choice(answer: &Answer, pin: Option<Pinned>) -> String {
    let is_named = |pin: &Pinned| answer.endpoints.contains(&pin.to);
    let is_whole = answer.endpoints.len() == answer.endpoint_count;
    let choice = match (answer.endpoint_count, answer.endpoints.first()) {
        (1, Some(endpoint)) => format!("forwarded to {endpoint}"),
        (count, _) => format!("forwarded to one of {count} endpoints, each equally likely"),
    };
    match pin {
        Some(pin) if is_named(&pin) || !is_whole => format!("forwarded to {}, where it is pinned", pin.to),
        Some(pin) => format!(
            "{choice}; it is pinned to {}, which is not used any more: the first packet may be dropped, the next try \
             goes elsewhere",
            pin.to
        ),
        None => choice,
    }
}

fn client_lines(lines: &mut Lines, all: &Explanations, one: &Explanation, answer: &Answer, read: &Read) {
    lines.line("From", client(all, one, &answer.client));
    let verdict = match answer.fate {
        Fate::Forward { .. } => {
            let to = choice(answer, pin(one, answer, read));
            let condition = "; if its address is in the source ranges, else dropped";
            to + if needs_source_range(one, answer) { condition } else { "" }
        }
        Fate::Reject(why) => format!("rejected (TCP reset or ICMP port unreachable): {}", refusal(why)),
        Fate::Drop(why) => format!("dropped without an answer: {}", refusal(why)),
        Fate::NotOurs => "unchanged: the destination belongs to no service".to_owned(),
    };
    lines.line("Verdict", verdict);
    if let Fate::Forward { masquerade, .. } = answer.fate {
        lines.line("Source", source(masquerade, answer.may_reach_itself));
    }
}

/// A client whose address nobody named is taken for one that source ranges allow.
pub(super) fn needs_source_range(one: &Explanation, answer: &Answer) -> bool {
    let has_ranges = one.explained.owner.as_ref().is_some_and(|owner| owner.sources.is_some());
    has_ranges && answer.client.ip.is_none() && matches!(answer.fate, Fate::Forward { .. })
}

pub(crate) fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::NoEndpoints => "the service has no usable endpoint",
        Refusal::NoLocalEndpoints => "the policy is Local and no usable endpoint is on this node",
        Refusal::SourceRange => "the client is outside loadBalancerSourceRanges",
        Refusal::UnlistedPort => "the address is a cluster IP that does not have this port",
        Refusal::UnallocatedAddress => "no service has this address of the ServiceCIDRs",
        Refusal::NotCarried => "this mode does not carry the protocol",
    }
}

fn source(masquerade: Option<MasqueradeCause>, may_reach_itself: bool) -> String {
    let cause = match masquerade {
        Some(MasqueradeCause::AllTraffic) => "all traffic is masqueraded (masqueradeAll)",
        Some(MasqueradeCause::External) => "external traffic of policy Cluster is masqueraded",
        Some(MasqueradeCause::NotAPod) => "the client is not a pod of this node",
        Some(MasqueradeCause::NodeShortCircuit) => "the node itself may use all endpoints",
        Some(MasqueradeCause::OwnConnection) => "this mode opens a connection of its own to the endpoint",
        None if may_reach_itself => {
            return "kept, unless the client reaches itself: then it sees the node's address".to_owned();
        }
        None => return "kept: endpoints see the client's address".to_owned(),
    };
    format!("rewritten to an address of the node: {cause}")
}

/// What a client counts as, and why.
pub(super) fn client(all: &Explanations, one: &Explanation, client: &Client) -> String {
    let kind = match client.kind() {
        ClientKind::Pod => "a pod of this node",
        ClientKind::Node => "this node itself",
        ClientKind::Outside => "a client outside this node",
    };
    let Some(from) = &all.from else {
        let blind = client.kind() == ClientKind::Outside && client.is_pod.is_none();
        let note = if blind { ", or a pod: nothing tells them apart (see --detect-local-mode)" } else { "" };
        return format!("{kind}{note}");
    };
    let family = Family::of(one.explained.to.ip());
    let interface = from.interface.as_deref().unwrap_or("an unknown interface (no route)");
    let why = match &all.detector {
        _ if client.is_node => "it is an address of this node".to_owned(),
        LocalDetector::None => "nothing tells pods from others (see --detect-local-mode)".to_owned(),
        LocalDetector::Cidrs(nets) => match nets.iter().find(|net| Family::of_net(net) == family) {
            Some(net) if net.contains(&from.ip) => format!("it is in {net}"),
            Some(net) => format!("it is not in {net}"),
            None => "no CIDR of this family is set".to_owned(),
        },
        LocalDetector::Bridge(bridge) => {
            format!("its packets come in through {interface}, pods through {bridge}")
        }
        LocalDetector::InterfacePrefix(prefix) => {
            format!("its packets come in through {interface}, those of pods through {prefix}*")
        }
    };
    format!("{}, {kind}: {why}", from.ip)
}

fn endpoint_lines(lines: &mut Lines, answer: &Answer) {
    let mut label = "Endpoints";
    for known in answer.known.iter().take(MOST_LISTED) {
        let at = match known.port {
            Some(port) => std::net::SocketAddr::new(known.ip, port).to_string(),
            None => known.ip.to_string(),
        };
        let node = known.node.as_deref().unwrap_or("-");
        let used = match known.used {
            Ok(()) => "used".to_owned(),
            Err(why) => format!("not used: {}", not_used(why)),
        };
        lines.line(label, format!("{at:<22} {node:<12} {used}"));
        label = "";
    }
    let rest = answer.known_count.saturating_sub(answer.known.len().min(MOST_LISTED));
    if rest > 0 {
        lines.line(label, format!("and {rest} more"));
    }
}

pub(super) fn not_used(why: NotUsed) -> &'static str {
    match why {
        NotUsed::OtherFamily => "of the other IP family",
        NotUsed::BadAddress => "no connection can be sent to this address",
        NotUsed::NoSuchPort => "its slice has no port of this name and protocol",
        NotUsed::BadPort => "its slice has no valid number for this port",
        NotUsed::NotReady => "not ready",
        NotUsed::Terminating => "terminating, and others are ready",
        NotUsed::HintedToOtherNodes => "its topology hints name other nodes",
        NotUsed::HintedToOtherZones => "its topology hints name other zones",
        NotUsed::OnOtherNode => "on another node, and the policy is Local",
        NotUsed::OnUnknownNode => "its slice names no node, and the policy is Local",
        NotUsed::LeftOut => "the service exceeds its limits",
    }
}

fn kernel_lines(lines: &mut Lines, one: &Explanation, read: &Read) {
    if one.is_pending {
        lines.line("Pending", "a pending sync may change this");
    }
    match read {
        None => lines.line("Kernel", "not compared: all rules are about to be rewritten"),
        Some(Err(error)) => lines.line("Kernel", format!("not compared: {error}")),
        Some(Ok(Inspection { compared: 0, unsettled: 0, .. })) => {
            lines.line("Kernel", "not compared: this mode cannot be read back");
        }
        Some(Ok(found)) if found.compared == 0 && found.differences.is_empty() => {
            lines.line("Kernel", "not compared: its rules were being written; try again");
        }
        Some(Ok(found)) if found.differences.is_empty() => {
            let part = if found.is_partial { ", which is not all of it" } else { "" };
            let changing = match found.unsettled {
                0 => String::new(),
                count => format!("; {count} skipped because they were being written"),
            };
            lines.line(
                "Kernel",
                format!("holds what was written ({} compared{part}{changing})", found.compared),
            );
        }
        Some(Ok(found)) => {
            lines.line(
                "Kernel",
                format!("differs in {} of {} places", found.differences.len(), found.compared),
            );
            for one in found.differences.iter().take(MOST_DIFFERENCES) {
                lines.line("", format!("{}: expected {}, found {}", one.place, one.expected, one.found));
            }
        }
    }
    let is_stale = one.explained.owner.as_ref().is_some_and(|owner| !owner.is_written);
    if is_stale {
        lines.line("", "what was written last differs from the plan");
    }
}
