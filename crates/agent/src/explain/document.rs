//! An explanation as JSON. Names and meanings are documented in `docs/ask.md` and stay.

use std::net::SocketAddr;

use config::version;
use dataplane::{Answer, Holder};
use model::{ClientKind, DeadEnd, Fate, MasqueradeCause, NotUsed, Role, TrafficPolicy};
use serde_json::{Value, json};

use super::{Read, Verdict, overall, words};
use crate::questions::{Explanation, Explanations};

pub(crate) fn document(explanations: &Explanations, read: &[Read]) -> Value {
    let each = explanations.each.iter().zip(read);
    json!({
        "version": version::FULL,
        "node": explanations.node,
        "mode": explanations.mode,
        "from": explanations.from.as_ref().map(|from| from.ip),
        "verdict": (!explanations.each.is_empty()).then(|| overall(&explanations.each).word()),
        "problem": explanations.problem,
        "leftOut": explanations.left_out,
        "unwritten": explanations.unwritten.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "explanations": each.map(|(one, read)| explanation(explanations, one, read)).collect::<Vec<_>>(),
        "text": words::text(explanations, read),
    })
}

fn explanation(all: &Explanations, one: &Explanation, read: &Read) -> Value {
    let explained = &one.explained;
    let neighbours = explained.neighbours.iter();
    json!({
        "protocol": explained.protocol.to_string(),
        "address": explained.to.ip(),
        "port": explained.to.port(),
        "service": explained.owner.as_ref().map(|owner| holder(one, owner)),
        "neighbours": neighbours.map(|(claim, service)| json!({
            "at": claim.to_string(),
            "service": &**service,
        })).collect::<Vec<_>>(),
        "pending": one.is_pending,
        "warnings": one.dead_ends.iter().map(|(ip, why)| format!("endpoint {ip} {why}")).collect::<Vec<_>>(),
        "clients": explained.answers.iter().map(|answer| client(all, one, answer, read)).collect::<Vec<_>>(),
        "kernel": kernel(read),
    })
}

fn holder(one: &Explanation, owner: &Holder) -> Value {
    let (rivals, first) = &owner.rivals;
    json!({
        "name": &*owner.service,
        "port": owner.port,
        "role": match owner.role {
            Role::ClusterIp => "clusterIP",
            Role::ExternalIp => "externalIP",
            Role::LoadBalancerIp => "loadBalancerIP",
            Role::NodePort => "nodePort",
        },
        "policy": one.policy.map(|(_, policy)| match policy {
            TrafficPolicy::Cluster => "Cluster",
            TrafficPolicy::Local => "Local",
        }),
        "affinitySeconds": owner.affinity_seconds,
        "sourceRanges": owner.sources.as_ref().map(|(nets, _)| nets.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "rivalCount": rivals,
        "rivals": first.iter().map(|name| &**name).collect::<Vec<_>>(),
        "written": owner.is_written,
    })
}

fn client(all: &Explanations, one: &Explanation, answer: &Answer, read: &Read) -> Value {
    let reason = match answer.fate {
        Fate::Reject(why) | Fate::Drop(why) => Some(why.word()),
        Fate::Forward { .. } | Fate::NotOurs => None,
    };
    let masquerade = match answer.fate {
        Fate::Forward { masquerade, .. } => masquerade,
        _ => None,
    };
    let pin = words::pin(one, answer, read);
    let pin =
        pin.map(|pin| json!({ "endpoint": pin.to, "secondsLeft": pin.left.map(|left| left.as_secs()) }));
    json!({
        "kind": match answer.client.kind() {
            ClientKind::Pod => "pod",
            ClientKind::Node => "node",
            ClientKind::Outside => "outside",
        },
        "seenAs": words::client(all, one, &answer.client),
        "verdict": Verdict::of(answer.fate).word(),
        "reason": reason,
        "needsSourceRange": words::needs_source_range(one, answer),
        "masquerade": masquerade.map(|cause| match cause {
            MasqueradeCause::AllTraffic => "masqueradeAll",
            MasqueradeCause::External => "external",
            MasqueradeCause::NotAPod => "notAPod",
            MasqueradeCause::NodeShortCircuit => "node",
            MasqueradeCause::OwnConnection => "ownConnection",
        }),
        "pin": pin,
        "endpoints": answer.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "endpointCount": answer.endpoint_count,
        "known": answer.known.iter().map(|known| json!({
            "address": known.port.map_or_else(|| known.ip.to_string(), |port| SocketAddr::new(known.ip, port).to_string()),
            "node": known.node,
            "used": known.used.is_ok(),
            "why": known.used.err().map(not_used_word),
            "leadsNowhere": one.dead_ends.get(&known.ip).filter(|_| known.used.is_ok()).map(DeadEnd::word),
        })).collect::<Vec<_>>(),
        "knownCount": answer.known_count,
    })
}

fn not_used_word(why: NotUsed) -> &'static str {
    match why {
        NotUsed::OtherFamily => "otherFamily",
        NotUsed::BadAddress => "badAddress",
        NotUsed::NoSuchPort => "noSuchPort",
        NotUsed::BadPort => "badPort",
        NotUsed::NotReady => "notReady",
        NotUsed::Terminating => "terminating",
        NotUsed::HintedToOtherNodes => "hintedToOtherNodes",
        NotUsed::HintedToOtherZones => "hintedToOtherZones",
        NotUsed::OnOtherNode => "onOtherNode",
        NotUsed::OnUnknownNode => "onUnknownNode",
        NotUsed::LeftOut => "leftOut",
    }
}

fn kernel(read: &Read) -> Value {
    match read {
        None => json!({ "compared": 0, "problem": "all rules are about to be rewritten" }),
        Some(Err(error)) => json!({ "compared": 0, "problem": error.to_string() }),
        Some(Ok(found)) => json!({
            "compared": found.compared,
            "partial": found.is_partial,
            "changing": found.unsettled,
            "differences": found.differences.iter().map(|one| json!({
                "place": one.place,
                "expected": one.expected,
                "found": one.found,
            })).collect::<Vec<_>>(),
        }),
    }
}
