//! What is set on the node itself.

use super::{Group, Setting, setting};

pub(super) const ALL: &[Setting] = &[
    setting("oomScoreAdj", |c| &mut c.oom_score_adj).flag(
        Group::Node,
        "oom-score-adj",
        "NUMBER",
        "How readily the kernel kills this process when memory is short, -1000 (never) to 1000 (first).",
    ),
    setting("conntrack.maxPerCore", |c| &mut c.conntrack.max_per_core).flag(
        Group::Node,
        "conntrack-max-per-core",
        "NUMBER",
        "Connections the kernel may track, a core; 0 leaves the limit alone.",
    ),
    setting("conntrack.min", |c| &mut c.conntrack.min).flag(
        Group::Node,
        "conntrack-min",
        "NUMBER",
        "The least number of connections the kernel may track, however few its cores.",
    ),
    setting("conntrack.tcpEstablishedTimeout", |c| &mut c.conntrack.tcp_established_timeout).flag(
        Group::Node,
        "conntrack-tcp-timeout-established",
        "DURATION",
        "When an idle TCP connection is forgotten; 0 leaves the node's own.",
    ),
    setting("conntrack.tcpCloseWaitTimeout", |c| &mut c.conntrack.tcp_close_wait_timeout).flag(
        Group::Node,
        "conntrack-tcp-timeout-close-wait",
        "DURATION",
        "When a TCP connection in CLOSE_WAIT is forgotten; 0 leaves the node's own.",
    ),
    setting("conntrack.tcpBeLiberal", |c| &mut c.conntrack.tcp_be_liberal).flag(
        Group::Node,
        "conntrack-tcp-be-liberal",
        "",
        "Track TCP packets outside of their window too.",
    ),
    setting("conntrack.udpTimeout", |c| &mut c.conntrack.udp_timeout).flag(
        Group::Node,
        "conntrack-udp-timeout",
        "DURATION",
        "When a UDP flow without an answer is forgotten; 0 leaves the node's own.",
    ),
    setting("conntrack.udpStreamTimeout", |c| &mut c.conntrack.udp_stream_timeout).flag(
        Group::Node,
        "conntrack-udp-timeout-stream",
        "DURATION",
        "When an idle UDP flow with answers is forgotten; 0 leaves the node's own.",
    ),
];
