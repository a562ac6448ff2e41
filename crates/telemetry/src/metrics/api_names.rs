//! The metrics of the apiserver source, in words.

use cluster::apiserver::{Extent, Phase};

use super::buckets;
use super::registry::{Description, Kind};

pub(super) const REQUESTS: Description = Description::counter(
    "rest_client_requests_total",
    &["code", "method", "host"],
    "Requests to the apiserver by HTTP status code, <error> if no answer came",
);
pub(super) const DURATION: Description = Description {
    name: "rest_client_request_duration_seconds",
    kind: Kind::Histogram(buckets::REQUEST),
    labels: &["verb", "host"],
    help: "How long the apiserver took until its answer began; of a watch, until it was accepted",
};
pub(super) const HELD_BACK: Description = Description {
    name: "rest_client_rate_limiter_duration_seconds",
    kind: Kind::Histogram(buckets::REQUEST),
    labels: &["verb", "host"],
    help: "How long requests were delayed by --kube-api-qps and --kube-api-burst",
};
pub(super) const SIZE: Description = Description {
    name: "rest_client_request_size_bytes",
    kind: Kind::Histogram(buckets::REQUEST_SIZE),
    labels: &["verb", "host"],
    help: "Bytes of the bodies of requests",
};

/// What the label `state` says.
pub(super) const STATES: [(Phase, &str); 4] = [
    (Phase::Listing, "listing"),
    (Phase::Watching, "watching"),
    (Phase::Failed, "failed"),
    (Phase::Absent, "absent"),
];

const fn of_kind(name: &'static str, kind: Kind, help: &'static str) -> Description {
    Description { name, kind, labels: &["kind"], help }
}

pub(super) const STATE: Description = Description::gauge(
    "pointsman_reflector_state",
    &["kind", "state"],
    "How objects of this kind are watched: 1 for the current state",
);
pub(super) const LAST_EVENT: Description = of_kind(
    "pointsman_reflector_last_event_timestamp_seconds",
    Kind::Gauge,
    "When the apiserver last sent something for this kind, bookmarks included",
);
pub(super) const LISTS: Description = of_kind(
    "pointsman_reflector_lists_total",
    Kind::Counter,
    "Lists that were started; one is enough as long as no watch falls behind",
);
pub(super) const WATCHES: Description = of_kind(
    "pointsman_reflector_watches_total",
    Kind::Counter,
    "Watches that were started; the apiserver ends each after some minutes",
);
pub(super) const FAILURES: Description =
    of_kind("pointsman_reflector_failures_total", Kind::Counter, "Lists and watches that failed");
/// What the label `extent` says.
pub(super) const EXTENTS: [(Extent, &str); 2] = [(Extent::Whole, "whole"), (Extent::Part, "part")];

pub(super) const PASSED_OVER: Description = Description::counter(
    "pointsman_unusable_objects_total",
    &["kind", "extent"],
    "Objects from the apiserver that could not be used, in whole or in part; each version counts",
);
pub(super) const UNUSABLE: Description = Description::gauge(
    "pointsman_unusable_objects",
    &["kind", "extent"],
    "Objects of the apiserver whose current version cannot be used, in whole or in part; up to 4096 are remembered",
);
