//! A connection that was seen, as a line for people and as JSON for programs. Pure.

use std::net::SocketAddr;
use std::time::Duration;

use config::version;
use dataplane::trace::{End, Ended, Matching, Missed, Sighting};
use model::{ClientKind, Fate, MasqueradeCause, Refusal};
use serde_json::{Value, json};

use super::context::Known;
use crate::explain::refusal_words;

/// What became of a connection, put together from what was seen and what is planned.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    word: &'static str,
    reason: Option<&'static str>,
    /// In words.
    text: String,
    endpoint: Option<SocketAddr>,
    /// Where the agent itself takes it in and opens a connection to the endpoint.
    via: Option<SocketAddr>,
    /// What the endpoint sees as its client, if that is another address.
    source: Option<SocketAddr>,
    /// The rule that decided, where it is not ours.
    by: Option<Value>,
}

pub(super) fn start(matching: &Matching, lasts: Duration) -> Value {
    json!({
        "version": version::FULL,
        "tracing": {
            "protocol": matching.protocol.map(|protocol| protocol.to_string()),
            "address": matching.to,
            "port": matching.port,
            "from": matching.from,
            "seconds": lasts.as_secs_f64(),
        },
    })
}

pub(super) fn seen(after: Duration, seen: &Sighting, known: &Known) -> Value {
    let verdict = judge(seen, known);
    let kind = known.kind.map(kind_word);
    json!({
        "after": (after.as_secs_f64() * 1000.0).round() / 1000.0,
        "protocol": seen.protocol.to_string(),
        "client": seen.client,
        "address": seen.to.ip(),
        "port": seen.to.port(),
        "service": known.service.as_deref(),
        "seenAs": kind,
        "verdict": verdict.word,
        "reason": verdict.reason,
        "endpoint": verdict.endpoint,
        "via": verdict.via,
        "source": verdict.source,
        "by": verdict.by,
        "text": text(after, seen, known, &verdict),
    })
}

/// The last line. `ended` is `None` if it were too many lines.
pub(super) fn end(ended: Option<&Ended>, missed: Missed, count: usize, left_out: u64) -> Value {
    let left_out = left_out + missed.crowded;
    let mut notes = Vec::new();
    match ended {
        Some(Ended::Failed(error)) => notes.push(format!("tracing failed: {error}")),
        Some(Ended::InTime | Ended::Stopped) => {}
        None => notes.push("too many connections; filter by port or --from".to_owned()),
    }
    if left_out > 0 {
        notes.push(format!("{left_out} more connections are not shown"));
    }
    if missed.overruns > 0 {
        notes.push(format!(
            "messages of the kernel were lost {} times: some connections are missing",
            missed.overruns
        ));
    }
    json!({
        "end": {
            "connections": count,
            "leftOut": left_out,
            "overruns": missed.overruns,
            "isComplete": notes.is_empty(),
            "notes": notes,
        },
    })
}

fn judge(seen: &Sighting, known: &Known) -> Verdict {
    let planned = match known.fate {
        Some(Fate::Reject(why)) => Some(("reject", why)),
        Some(Fate::Drop(why)) => Some(("drop", why)),
        _ => None,
    };
    match (&seen.end, planned) {
        (End::Led { to, .. }, _) if is_carried(known) => carried(*to, known),
        (End::Led { to, source }, _) => led(seen, *to, *source),
        (End::Passed { source }, _) if matches!(known.fate, Some(Fate::Forward { .. })) => led(seen, seen.to, *source),
        (End::Passed { .. }, _) => Verdict {
            word: "notOurs",
            text: "not redirected: it goes to the address itself".to_owned(),
            ..Verdict::default()
        },
        (End::Rejected(why), _) => refused("reject", *why),
        (End::Dropped(why), _) => refused("drop", *why),
        (End::StalePin, _) => Verdict {
            word: "drop",
            reason: Some("stale_pin"),
            text: "dropped: stale_pin, it was pinned to an endpoint that is gone; the next try goes elsewhere".to_owned(),
            ..Verdict::default()
        },
        (End::DroppedElsewhere { .. } | End::Vanished, Some((word, why))) => {
            let by_plan = refused(word, why);
            Verdict { text: format!("{}, by the plan", by_plan.text), by: Some(json!("plan")), ..by_plan }
        }
        (End::DroppedElsewhere { table, chain }, None) => Verdict {
            word: "drop",
            reason: Some("other_rule"),
            text: format!("dropped or rejected by a rule that is not kube-proxy's: table {table}, chain {chain}"),
            by: Some(json!({ "table": table, "chain": chain })),
            ..Verdict::default()
        },
        (End::Vanished, None) => Verdict {
            word: "lost",
            reason: Some("not_seen_again"),
            text: "lost: received but not forwarded, and not dropped by a rule of nf_tables. Check routes, rp_filter and network \
                   policies that are programmed otherwise"
                .to_owned(),
            ..Verdict::default()
        },
    }
}

fn led(seen: &Sighting, to: SocketAddr, source: SocketAddr) -> Verdict {
    let source = Some(source).filter(|source| source.ip() != seen.client.ip());
    let text = match source {
        Some(source) => format!("forwarded, source rewritten to {}", source.ip()),
        None => "forwarded".to_owned(),
    };
    Verdict { word: "forward", text, endpoint: Some(to), source, ..Verdict::default() }
}

/// Whether the mode opens a connection of its own to the endpoint.
fn is_carried(known: &Known) -> bool {
    matches!(known.fate, Some(Fate::Forward { masquerade: Some(MasqueradeCause::OwnConnection), .. }))
}

/// Which endpoint the forwarder chooses is seen only where there is no choice.
fn carried(via: SocketAddr, known: &Known) -> Verdict {
    let text = "forwarded by the agent, over a connection of its own".to_owned();
    Verdict { word: "forward", text, endpoint: known.only_endpoint, via: Some(via), ..Verdict::default() }
}

fn refused(word: &'static str, why: Refusal) -> Verdict {
    let how = if word == "reject" { "rejected" } else { "dropped" };
    let text = format!("{how}: {}, {}", why.word(), refusal_words(why));
    Verdict { word, reason: Some(why.word()), text, ..Verdict::default() }
}

fn text(after: Duration, seen: &Sighting, known: &Known, verdict: &Verdict) -> String {
    let arrow = |at: Option<SocketAddr>| at.map(|at| format!(" -> {at}")).unwrap_or_default();
    let endpoint = format!("{}{}", arrow(verdict.via), arrow(verdict.endpoint));
    let service = known.service.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    let kind = known.kind.map_or("?", kind_word);
    let (protocol, client, to) = (seen.protocol, seen.client, seen.to);
    format!(
        "{:>8.3}s  {protocol} {client} -> {to}{endpoint}{service}  {kind}  {}",
        after.as_secs_f64(),
        verdict.text
    )
}

fn kind_word(kind: ClientKind) -> &'static str {
    match kind {
        ClientKind::Pod => "pod",
        ClientKind::Node => "node",
        ClientKind::Outside => "outside",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Pool, Protocol};

    fn sighting(end: End) -> Sighting {
        let (client, to) = ("10.1.0.9:1000".parse().unwrap(), "10.96.0.1:80".parse().unwrap());
        Sighting { protocol: Protocol::Tcp, client, to, entry: None, end }
    }

    fn known(fate: Fate) -> Known {
        let service = Some("default/web".into());
        Known { service, kind: Some(ClientKind::Pod), fate: Some(fate), only_endpoint: None }
    }

    fn forward() -> Known {
        known(Fate::Forward { pool: Pool::Cluster, masquerade: None })
    }

    fn told(end: End, known: &Known) -> Value {
        seen(Duration::from_millis(1234), &sighting(end), known)
    }

    #[test]
    fn a_forwarded_connection_names_its_endpoint() {
        let (to, source) = ("10.2.0.1:8080".parse().unwrap(), "10.1.0.9:1000".parse().unwrap());
        let line = told(End::Led { to, source }, &forward());
        assert_eq!(
            line["text"],
            "   1.234s  tcp 10.1.0.9:1000 -> 10.96.0.1:80 -> 10.2.0.1:8080 (default/web)  pod  forwarded"
        );
        assert_eq!((&line["verdict"], &line["endpoint"]), (&json!("forward"), &json!("10.2.0.1:8080")));
        assert!(line["source"].is_null());
        let line = told(End::Led { to, source: "192.168.0.1:5".parse().unwrap() }, &forward());
        assert_eq!(line["source"], "192.168.0.1:5");
        let line = told(End::Passed { source }, &known(Fate::NotOurs));
        assert_eq!((&line["verdict"], &line["endpoint"]), (&json!("notOurs"), &Value::Null));
    }

    #[test]
    fn what_the_agent_carries_itself_has_an_endpoint_only_if_there_is_one() {
        let masquerade = Some(MasqueradeCause::OwnConnection);
        let mut known = known(Fate::Forward { pool: Pool::Cluster, masquerade });
        let (to, source) = ("169.254.84.85:20850".parse().unwrap(), "10.1.0.9:1000".parse().unwrap());
        let line = told(End::Led { to, source }, &known);
        assert_eq!((&line["via"], &line["endpoint"]), (&json!("169.254.84.85:20850"), &Value::Null));
        known.only_endpoint = Some("10.2.0.1:8080".parse().unwrap());
        assert_eq!(told(End::Led { to, source }, &known)["endpoint"], "10.2.0.1:8080");
    }

    #[test]
    fn refusals_have_the_reasons_of_explain() {
        for why in Refusal::COUNTED {
            let line = told(End::Rejected(why), &forward());
            assert_eq!((&line["verdict"], &line["reason"]), (&json!("reject"), &json!(why.word())));
            // Where no rule says why, the plan does.
            let line = told(End::Vanished, &known(Fate::Drop(why)));
            assert_eq!(
                (&line["verdict"], &line["reason"], &line["by"]),
                (&json!("drop"), &json!(why.word()), &json!("plan"))
            );
        }
        let end = End::DroppedElsewhere { table: "inet policies".to_owned(), chain: "forward".to_owned() };
        let line = told(end, &forward());
        assert_eq!((&line["reason"], &line["by"]["table"]), (&json!("other_rule"), &json!("inet policies")));
        assert_eq!(told(End::Vanished, &forward())["verdict"], "lost");
    }

    #[test]
    fn the_end_says_what_is_missing() {
        let line = end(Some(&Ended::InTime), Missed::default(), 3, 0);
        assert_eq!((&line["end"]["connections"], &line["end"]["isComplete"]), (&json!(3), &json!(true)));
        let line = end(None, Missed { overruns: 2, crowded: 1 }, 3, 4);
        assert_eq!(line["end"]["notes"].as_array().map(Vec::len), Some(3));
        assert_eq!(line["end"]["leftOut"], 5);
    }
}
