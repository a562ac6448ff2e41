//! The figures as Prometheus reads them. Pure.

use std::collections::BTreeMap;

use model::Family;

use super::super::{PortTraffic, ServicePortName};
use crate::metrics::{Description, Page, label_text};

pub(crate) type Figures = (Family, BTreeMap<ServicePortName, PortTraffic>);

const OF_PORT: &[&str] = &["namespace", "service", "port", "protocol", "ip_family"];
const OF_DIRECTION: &[&str] = &["namespace", "service", "port", "protocol", "ip_family", "direction"];

const PACKETS: Description = Description::counter(
    "pointsman_service_packets_total",
    OF_DIRECTION,
    "Packets between clients and a service port, of connections that this node redirected",
);
const BYTES: Description = Description::counter(
    "pointsman_service_bytes_total",
    OF_DIRECTION,
    "Bytes of these packets, with their IP headers",
);
const CONNECTIONS: Description = Description::counter(
    "pointsman_service_connections_total",
    OF_PORT,
    "New connections (UDP: flows) to a service port that this node redirected",
);

const REFUSED: Description = Description::counter(
    "pointsman_service_refused_packets_total",
    OF_PORT,
    "Packets to a service port that were rejected or dropped: no endpoint, none on this node, or a source range",
);

pub(crate) const METRICS: [Description; 4] = [PACKETS, BYTES, CONNECTIONS, REFUSED];

/// Of service ports that this node has redirected or refused something for. The others would be most of all series: a node
/// sees few of a large cluster's services.
pub(super) fn families(figures: &[Figures]) -> String {
    let seen = |is_seen: fn(&PortTraffic) -> bool| -> Vec<(String, &PortTraffic)> {
        figures.iter().flat_map(|figures| seen(figures, is_seen)).collect()
    };
    let redirected =
        seen(|traffic| *traffic != PortTraffic { refused: traffic.refused, ..Default::default() });
    let refused = seen(|traffic| traffic.refused > 0);
    let mut page = Page::default();
    if !redirected.is_empty() {
        page.family(&PACKETS);
        for (labels, traffic) in &redirected {
            page.count(PACKETS.name, &with_direction(labels, "request"), traffic.requests.packets);
            page.count(PACKETS.name, &with_direction(labels, "reply"), traffic.replies.packets);
        }
        page.family(&BYTES);
        for (labels, traffic) in &redirected {
            page.count(BYTES.name, &with_direction(labels, "request"), traffic.requests.bytes);
            page.count(BYTES.name, &with_direction(labels, "reply"), traffic.replies.bytes);
        }
        page.family(&CONNECTIONS);
        for (labels, traffic) in &redirected {
            page.count(CONNECTIONS.name, labels, traffic.connections);
        }
    }
    if !refused.is_empty() {
        page.family(&REFUSED);
        for (labels, traffic) in &refused {
            page.count(REFUSED.name, labels, traffic.refused);
        }
    }
    page.into_text()
}

fn seen(
    (family, ports): &Figures,
    is_seen: fn(&PortTraffic) -> bool,
) -> impl Iterator<Item = (String, &PortTraffic)> {
    let family = family.to_string();
    let seen = ports.iter().filter(move |(_, traffic)| is_seen(traffic));
    seen.map(move |(name, traffic)| (labels(name, &family), traffic))
}

fn labels(name: &ServicePortName, family: &str) -> String {
    let (namespace, service) = name.service.split_once('/').unwrap_or(("", &name.service));
    let protocol = name.protocol.to_string().to_uppercase();
    label_text([
        ("namespace", namespace),
        ("service", service),
        ("port", &name.port),
        ("protocol", &protocol),
        ("ip_family", family),
    ])
}

fn with_direction(labels: &str, direction: &str) -> String {
    format!("{labels},direction=\"{direction}\"")
}

#[cfg(test)]
#[path = "../../../tests/unit/service_counters_text.rs"]
mod tests;
