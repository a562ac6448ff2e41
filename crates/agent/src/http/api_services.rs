//! `/pointsman/v1/services`: what is programmed, page by page, in the order of names.

use std::fmt::Write as _;
use std::net::IpAddr;

use config::version;
use dataplane::{Rates, ServicePortName, Traffic};
use model::{Family, ServiceKey, TrafficPolicy};
use serde_json::{Value, json};

use super::api::{Refused as RefusedQuestion, bad, parameter, unanswered};
use crate::problems;
use crate::questions::{Asker, MOST_ROWS, PortRow, ServiceRow};

/// Services on a page, unless fewer are asked for.
const LARGEST_PAGE: usize = 500;

/// Text of a page, about: a service may have tens of thousands of ports.
const MOST_TEXT: usize = 4 << 20;

/// What is asked for.
struct Wanted {
    namespace: Option<String>,
    name: Option<String>,
    address: Option<IpAddr>,
    only_problems: bool,
    limit: usize,
    /// The last name of the page before.
    behind: Option<String>,
}

impl Wanted {
    fn read(query: &str) -> Result<Wanted, RefusedQuestion> {
        let address = parameter(query, "address")?
            .map(|text| text.parse().map_err(|_| bad(format!("{text:?} is not an IP address"))));
        let limit = parameter(query, "limit")?.map(|text| {
            let number = text.parse().ok().filter(|number| (1..=LARGEST_PAGE).contains(number));
            number.ok_or_else(|| bad(format!("limit: {text:?} is not a number from 1 to {LARGEST_PAGE}")))
        });
        Ok(Wanted {
            namespace: parameter(query, "namespace")?.filter(|text| !text.is_empty()),
            name: parameter(query, "name")?.filter(|text| !text.is_empty()),
            address: address.transpose()?,
            only_problems: parameter(query, "problems")?.as_deref() == Some("true"),
            limit: limit.transpose()?.unwrap_or(LARGEST_PAGE),
            behind: parameter(query, "continue")?.filter(|text| !text.is_empty()),
        })
    }

    fn means(&self, service: &str) -> bool {
        let (namespace, name) = service.split_once('/').unwrap_or(("", service));
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && self.name.as_deref().is_none_or(|wanted| wanted == name)
            && self.behind.as_deref().is_none_or(|behind| service > behind)
    }
}

/// A line for each service. The text grows with what is asked of the sync thread piece by piece, so that a page is never
/// held in two forms: many short-lived documents would stay with the process as memory.
pub(super) async fn services(
    query: &str,
    sync_thread: &Asker,
    traffic: Option<&dyn Traffic>,
) -> Result<String, RefusedQuestion> {
    let wanted = Wanted::read(query)?;
    let names = sync_thread.service_names(wanted.address).await.map_err(unanswered)?;
    let mut names: Vec<ServiceKey> = names.into_iter().filter(|name| wanted.means(name)).collect();
    names.sort_unstable();
    if wanted.only_problems {
        names = sync_thread.problematic(&names, wanted.limit + 1).await.map_err(unanswered)?;
    }
    let mut next = names.get(wanted.limit - 1).filter(|_| names.len() > wanted.limit).cloned();
    names.truncate(wanted.limit);
    let rates = traffic.map(Traffic::rates);
    let counted = match &rates {
        None => "off",
        Some(None) => "pending",
        Some(Some(_)) => "counted",
    };
    let rates = rates.flatten();
    let mut text = format!("{{\"version\":{},\"traffic\":\"{counted}\",\"services\":[", json!(version::FULL));
    let mut separator = "\n";
    for some in names.chunks(MOST_ROWS) {
        for row in sync_thread.service_rows(some).await.map_err(unanswered)? {
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{}", document(&row, rates.as_deref()));
            separator = ",\n";
        }
        if text.len() > MOST_TEXT && some.last() < names.last() {
            next = some.last().cloned();
            break;
        }
    }
    let _ = writeln!(text, "\n],\"continue\":{}}}", json!(next.as_deref()));
    Ok(text)
}

fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

/// Names and meanings are documented in `docs/ask.md` and stay.
pub(super) fn document(row: &ServiceRow, rates: Option<&Rates>) -> Value {
    let (namespace, name) = row.service.split_once('/').unwrap_or(("", &row.service));
    json!({
        "namespace": namespace,
        "name": name,
        "type": row.kind(),
        "clusterIPs": row.cluster_ips,
        "externalIPs": row.external_ips,
        "loadBalancerIPs": row.load_balancer_ips,
        "clusterIPCount": row.ip_counts[0],
        "externalIPCount": row.ip_counts[1],
        "loadBalancerIPCount": row.ip_counts[2],
        "internalTrafficPolicy": policy(row.internal_policy),
        "externalTrafficPolicy": policy(row.external_policy),
        "affinitySeconds": row.affinity_seconds,
        "sourceRangeCount": row.source_ranges,
        "portCount": row.port_count,
        "ports": row.ports.iter().map(|port| port_document(row, port, rates)).collect::<Vec<_>>(),
        "contested": row.lost.iter().map(|(claim, owner)| json!({
            "at": claim.to_string(),
            "owner": &**owner,
        })).collect::<Vec<_>>(),
        "pending": row.is_pending,
        "problems": problems::of_service(row),
    })
}

fn port_document(row: &ServiceRow, port: &PortRow, rates: Option<&Rates>) -> Value {
    let endpoints = Family::BOTH.into_iter().filter_map(|family| {
        let usable = port.usable[family.index()]?;
        let known = row.known[family.index()];
        Some((family.to_string(), json!({ "usable": usable, "known": known })))
    });
    json!({
        "name": port.name,
        "protocol": port.protocol.to_string(),
        "port": port.port,
        "nodePort": port.node_port,
        "endpoints": endpoints.collect::<serde_json::Map<_, _>>(),
        "problems": problems::of_port(row, port),
        "rates": rates.map(|rates| rates_document(row, port, rates)),
    })
}

/// A second, of both families.
fn rates_document(row: &ServiceRow, port: &PortRow, rates: &Rates) -> Value {
    let name =
        ServicePortName { service: (&*row.service).into(), port: port.name.clone(), protocol: port.protocol };
    let rate = rates.ports.get(&name).copied().unwrap_or_default();
    json!({
        "seconds": rates.seconds,
        "connections": rate.connections,
        "requestPackets": rate.request_packets,
        "requestBytes": rate.request_bytes,
        "replyPackets": rate.reply_packets,
        "replyBytes": rate.reply_bytes,
    })
}
