//! What the mode measures: connections that the forwarder carries, those that it turned away, and its limits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{Family, Protocol};

use crate::metrics::{Collector, Description, Page, label_text};
use forwarder::{Count, Refused, Shared};

const LABELS: &[&str] = &["ip_family", "protocol"];

const OPEN: Description = Description::gauge(
    "pointsman_userspace_open_connections",
    LABELS,
    "Connections and UDP flows that are open",
);
const LIMIT: Description = Description::gauge(
    "pointsman_userspace_open_connections_limit",
    &["protocol"],
    "Maximum number of open connections and UDP flows; a service port may have half of it",
);
const OPENED: Description = Description::counter(
    "pointsman_userspace_connections_total",
    LABELS,
    "Connections and UDP flows that were opened",
);
const REFUSED: Description = Description::counter(
    "pointsman_userspace_refused_connections_total",
    &["ip_family", "protocol", "reason"],
    "Connections and UDP flows that were turned away, by reason: limit, descriptors, endpoints, unknown, ports",
);
const FAILED: Description = Description::counter(
    "pointsman_userspace_failed_dials_total",
    LABELS,
    "Endpoints that refused a connection or did not answer; another one is tried then",
);
const BYTES: Description = Description::counter(
    "pointsman_userspace_bytes_total",
    &["ip_family", "protocol", "direction"],
    "Bytes carried for connections that have ended and for UDP flows: to endpoints (request) and back (reply)",
);

const HELD: Description = Description::gauge(
    "pointsman_userspace_held_bytes",
    &[],
    "Bytes that the forwarder holds in memory until their receivers take them",
);

const BLOCKED: Description = Description::gauge(
    "pointsman_userspace_blocked_connections",
    &[],
    "Connections that made no progress for a minute because their client or endpoint does not read",
);
const LOST: Description = Description::counter(
    "pointsman_userspace_lost_answers_total",
    &["ip_family"],
    "Answers of UDP endpoints that could not be sent to their clients",
);
const ENDED: Description = Description::counter(
    "pointsman_userspace_udp_flows_ended_early_total",
    &["ip_family"],
    "UDP flows that were ended before they were idle for long enough, because new clients needed their place",
);

pub(super) const METRICS: [Description; 10] =
    [OPEN, LIMIT, OPENED, REFUSED, FAILED, BYTES, HELD, BLOCKED, LOST, ENDED];

pub(super) fn collector(shared: Arc<Shared>) -> Arc<dyn Collector> {
    Arc::new(Figures(shared))
}

struct Figures(Arc<Shared>);

impl Collector for Figures {
    fn collect(&self, page: &mut Page) {
        let Figures(shared) = self;
        let each = |page: &mut Page, about: &Description, value: fn(&Count) -> u64| {
            page.family(about);
            for (labels, count) in counts(shared) {
                page.count(about.name, &label_text(pairs(&labels)), value(count));
            }
        };
        each(page, &OPEN, |count| count.open.load(Ordering::Relaxed) as u64);
        page.family(&LIMIT);
        for protocol in CARRIED {
            let limit = shared.limits.of_protocol(protocol) as u64;
            page.count(LIMIT.name, &label_text([("protocol", &*protocol.to_string())]), limit);
        }
        each(page, &OPENED, |count| count.opened.load(Ordering::Relaxed));
        page.family(&REFUSED);
        for (labels, count) in counts(shared) {
            for why in Refused::ALL {
                let labels = label_text(pairs(&labels).into_iter().chain([("reason", why.word())]));
                page.count(REFUSED.name, &labels, count.refused(why));
            }
        }
        each(page, &FAILED, |count| count.failed_dials.load(Ordering::Relaxed));
        page.family(&BYTES);
        for (labels, count) in counts(shared) {
            for (direction, bytes) in ["request", "reply"].into_iter().zip(&count.bytes) {
                let labels = label_text(pairs(&labels).into_iter().chain([("direction", direction)]));
                page.count(BYTES.name, &labels, bytes.load(Ordering::Relaxed));
            }
        }
        page.family(&HELD);
        page.count(HELD.name, "", shared.counts.held() as u64);
        page.family(&BLOCKED);
        page.count(BLOCKED.name, "", shared.counts.blocked.load(Ordering::Relaxed) as u64);
        let mut of_families = |about: &Description, value: &dyn Fn(Family) -> u64| {
            page.family(about);
            for family in Family::BOTH {
                page.count(about.name, &label_text([("ip_family", &*family.to_string())]), value(family));
            }
        };
        of_families(&LOST, &|family| shared.counts.lost_answers[family.index()].load(Ordering::Relaxed));
        of_families(&ENDED, &|family| {
            shared.counts.of(family, Protocol::Udp).ended_early.load(Ordering::Relaxed)
        });
    }
}

const CARRIED: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

fn counts(shared: &Shared) -> impl Iterator<Item = ([String; 2], &Count)> {
    let all = Family::BOTH.into_iter().flat_map(|family| CARRIED.map(|protocol| (family, protocol)));
    all.map(|(family, protocol)| {
        ([family.to_string(), protocol.to_string()], shared.counts.of(family, protocol))
    })
}

fn pairs([family, protocol]: &[String; 2]) -> [(&str, &str); 2] {
    [("ip_family", family), ("protocol", protocol)]
}
