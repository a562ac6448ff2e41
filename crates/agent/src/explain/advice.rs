//! What to do about a packet that does not get through.

use std::collections::BTreeSet;

use dataplane::{Answer, Inspection};
use ipnet::IpNet;
use model::{Fate, NotUsed, Refusal};

use super::Read;
use crate::questions::{Explanation, Explanations};

/// A line for each reason, none twice.
pub(super) fn advice(all: &Explanations, one: &Explanation, read: &Read) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for answer in &one.explained.answers {
        let found = match answer.fate {
            Fate::Forward { .. } => None,
            Fate::Reject(Refusal::NoEndpoints) => Some(without_endpoints(one, answer)),
            Fate::Drop(Refusal::NoLocalEndpoints) => Some(format!(
                "run a pod of the service on node {}, or set {} to Cluster; a load balancer that checks \
                 healthCheckNodePort sends nothing here",
                all.node,
                one.policy.map_or("the policy", |(name, _)| name)
            )),
            Fate::Drop(Refusal::SourceRange) => {
                let range = answer.client.ip.map(|ip| IpNet::from(ip).to_string());
                let range = range.as_deref().unwrap_or("the client's range");
                Some(format!("add {range} to spec.loadBalancerSourceRanges to allow this client"))
            }
            Fate::Reject(Refusal::UnlistedPort) => {
                Some("call one of its ports, or add this port to the service".to_owned())
            }
            Fate::Reject(Refusal::NotCarried) => Some("use another mode for this protocol".to_owned()),
            Fate::Reject(_) | Fate::Drop(_) => Some(
                "check the address: the service may have been deleted, or its address may have changed"
                    .to_owned(),
            ),
            Fate::NotOurs => Some(not_ours(one)),
        };
        lines.extend(found.filter(|line| !lines.contains(line)));
    }
    if let Some(Ok(Inspection { differences, .. })) = read
        && !differences.is_empty()
        && !one.is_pending
    {
        lines.push(
            "another process changed the rules; the agent repairs this automatically; its log names the process"
                .to_owned(),
        );
    }
    lines
}

fn without_endpoints(one: &Explanation, answer: &Answer) -> String {
    let Some(owner) = &one.explained.owner else { return String::new() };
    let (namespace, name) = owner.service.split_once('/').unwrap_or(("", &owner.service));
    let reasons: BTreeSet<NotUsed> = answer.known.iter().filter_map(|known| known.used.err()).collect();
    if owner.is_large {
        return "see why none of its endpoints is usable".to_owned();
    }
    if answer.known.is_empty() {
        return format!(
            "no EndpointSlice of this family has endpoints: check the selector of the service and its pods \
             (kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name})"
        );
    }
    let lines = reasons.iter().map(|why| match why {
        NotUsed::NoSuchPort => format!(
            "{} slice has a port named {:?} of {}; slices have {}: the name of the port in the service and in its slices \
             must be the same",
            if reasons.len() == 1 { "no" } else { "not every" },
            owner.port,
            one.explained.protocol,
            one.offered.join(", ")
        ),
        NotUsed::BadPort => "give the port of the EndpointSlice a number from 1 to 65535".to_owned(),
        NotUsed::BadAddress | NotUsed::OtherFamily => {
            "point the EndpointSlice at addresses of pods; no connection can be sent to what it has".to_owned()
        }
        NotUsed::LeftOut => {
            "split the service: it has more ports and endpoints than one service may have".to_owned()
        }
        NotUsed::NotReady
        | NotUsed::Terminating
        | NotUsed::HintedToOtherNodes
        | NotUsed::HintedToOtherZones
        | NotUsed::OnOtherNode
        | NotUsed::OnUnknownNode => format!(
            "make a pod of the service ready (kubectl -n {namespace} get pods -o wide; look at readiness probes)"
        ),
    });
    let mut lines: Vec<String> = lines.collect();
    lines.dedup();
    lines.join("; ")
}

fn not_ours(one: &Explanation) -> String {
    let explained = &one.explained;
    let ip = explained.to.ip();
    if !explained.neighbours.is_empty() {
        return "the address is served only at the ports and protocols listed above".to_owned();
    }
    if explained.node.serves_node_ports(ip) {
        return match explained.to.port() {
            30_000..=32_767 => "no service has this node port; check the number and the protocol".to_owned(),
            _ => "no service has this port; it is the node's own".to_owned(),
        };
    }
    let ips: Vec<String> = explained.node.nodeport_ips.iter().take(10).map(ToString::to_string).collect();
    format!(
        "if this is meant to be a service, check its address; node ports are served at {} (--nodeport-addresses)",
        if ips.is_empty() { "no address".to_owned() } else { ips.join(", ") }
    )
}
