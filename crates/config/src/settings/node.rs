//! What is set on the node itself.

use super::OnChange::{Live, Rewrite};
use super::{Group, Setting, setting, timeout};

pub(super) const ALL: &[Setting] = &[
    setting("oomScoreAdj", Live, |c| &mut c.oom_score_adj)
        .flag(Group::Node, "oom-score-adj", "NUMBER")
        .help("The OOM score adjustment of this process, -1000 (never kill) to 1000 (kill first)."),
    setting("conntrack.maxPerCore", Live, |c| &mut c.conntrack.max_per_core)
        .flag(Group::Node, "conntrack-max-per-core", "NUMBER")
        .help("Maximum number of tracked connections per core; 0 keeps the node's limit."),
    setting("conntrack.min", Live, |c| &mut c.conntrack.min)
        .flag(Group::Node, "conntrack-min", "NUMBER")
        .help("Minimum of the limit on tracked connections, regardless of --conntrack-max-per-core."),
    setting("conntrack.tcpEstablishedTimeout", Live, |c| &mut c.conntrack.tcp_established_timeout)
        .flag(Group::Node, "conntrack-tcp-timeout-established", "DURATION")
        .help(timeout!("idle TCP connections")),
    setting("conntrack.tcpCloseWaitTimeout", Live, |c| &mut c.conntrack.tcp_close_wait_timeout)
        .flag(Group::Node, "conntrack-tcp-timeout-close-wait", "DURATION")
        .help(timeout!("TCP connections in CLOSE_WAIT")),
    setting("conntrack.tcpBeLiberal", Rewrite, |c| &mut c.conntrack.tcp_be_liberal)
        .flag(Group::Node, "conntrack-tcp-be-liberal", "")
        .help("Also track TCP packets outside their window."),
    setting("conntrack.udpTimeout", Live, |c| &mut c.conntrack.udp_timeout)
        .flag(Group::Node, "conntrack-udp-timeout", "DURATION")
        .help(timeout!("UDP flows without a reply")),
    setting("conntrack.udpStreamTimeout", Live, |c| &mut c.conntrack.udp_stream_timeout)
        .flag(Group::Node, "conntrack-udp-timeout-stream", "DURATION")
        .help(timeout!("idle UDP flows with replies")),
];
