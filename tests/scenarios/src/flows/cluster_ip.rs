//! Cluster IPs: who reaches them, with which address, and what is refused.

use super::prelude::*;

pub(super) fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    reached(&mut flows);
    ports(&mut flows);
    policy(&mut flows);
    refused(&mut flows);
    flows
}

fn reached(flows: &mut Vec<Flow>) {
    let why = "a cluster IP leads to every endpoint; clients that are no pods of the node are masqueraded";
    for protocol in [Tcp, Udp, Sctp] {
        for from in [Guest, EndpointB, Node, Far, Outside] {
            flows.push(Flow::new(from, protocol, cluster("web"), Answered(ALL, ByDetector), why));
        }
    }
    let why = "an endpoint that reaches itself through its service is masqueraded";
    for protocol in [Tcp, Udp, Sctp] {
        flows.push(Flow::new(EndpointB, protocol, cluster("self"), Answered(B, ByDetector), why));
    }
    let why = "and so is one of which no slice says that it is on this node";
    flows.push(Flow::new(Guest, Tcp, cluster("nowhere-self"), Answered(GUEST, ByDetector), why));
    let why = "only the endpoint itself is masqueraded, its neighbours are not";
    flows.push(Flow::new(Guest, Tcp, cluster("self"), Answered(B, ByDetector), why));
    let why = "every usable endpoint is as likely as any other";
    flows.push(Flow::new(Guest, Tcp, cluster("web"), Answered(ALL, ByDetector), why).asking(Evenly));
    flows.push(Flow::new(Outside, Udp, cluster("web"), Answered(ALL, ByDetector), why).asking(Evenly));
}

fn ports(flows: &mut Vec<Flow>) {
    let port = |service, port| Target::Vip(Range::Cluster, service, port);
    for from in [Guest, Outside, Node] {
        let why = "each named port has the target port of its name";
        flows.push(Flow::new(from, Tcp, port("multi", 80), Answered(A_C, ByDetector), why));
        flows.push(Flow::new(from, Tcp, port("multi", 9100), Answered(A_C_SECOND, ByDetector), why));
        let why = "TCP and UDP of one number are two ports";
        flows.push(Flow::new(from, Udp, port("dns", 53), Answered(A_C, ByDetector), why));
        flows.push(Flow::new(from, Tcp, port("dns", 53), Answered(A_C_SECOND, ByDetector), why));
    }
    flows.push(Flow::new(Guest, Tcp, port("half", 80), Answered(A_C, ByDetector), "the port has endpoints"));
    for from in [Guest, Node, Outside] {
        let why = "a port whose name no slice serves has no endpoints";
        flows.push(Flow::new(from, Tcp, port("half", 81), Rejected, why));
    }
}

fn policy(flows: &mut Vec<Flow>) {
    let why = "internalTrafficPolicy Local: only endpoints of this node, for every client";
    for from in [Guest, EndpointB, Node, Far, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("inner"), Answered(A, ByDetector), why));
    }
    flows.push(Flow::new(Guest, Udp, cluster("inner"), Answered(A, ByDetector), why));
    let why = "internalTrafficPolicy Local and none here: dropped, never rejected";
    for from in [Guest, Node, Far, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("inner-away"), Dropped, why));
        flows.push(Flow::new(from, Udp, cluster("inner-away"), Dropped, why));
    }
    let why = "no endpoint anywhere: rejected, whatever the policy";
    for from in [Guest, Node, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("inner-empty"), Rejected, why));
    }
    let why = "internalTrafficPolicy does not concern external traffic";
    flows.push(Flow::new(Guest, Tcp, cluster("inner-open"), Dropped, why));
    for to in doors("inner-open") {
        flows.push(Flow::new(Outside, Tcp, to, Answered(C, Rewritten), why));
        flows.push(Flow::new(Guest, Tcp, to, Answered(C, Rewritten), why));
    }
}

fn refused(flows: &mut Vec<Flow>) {
    let why = "no usable endpoint anywhere: TCP reset, port unreachable";
    for service in ["empty", "unready"] {
        for protocol in [Tcp, Udp, Sctp] {
            for from in [Guest, Node, Far, Outside] {
                flows.push(Flow::new(from, protocol, cluster(service), Rejected, why));
            }
        }
    }
    let why = "an unlisted port of a live cluster IP is rejected";
    for protocol in [Tcp, Udp] {
        for from in [Guest, Node, Far, Outside] {
            flows.push(Flow::new(from, protocol, Target::Vip(Range::Cluster, "web", 81), Rejected, why));
        }
    }
    let why = "a node port is no port of the cluster IP";
    flows.push(Flow::new(Guest, Tcp, Target::Vip(Range::Cluster, "open", 30100), Rejected, why));
    let why = "addresses of the ServiceCIDRs that no service has are dropped";
    for protocol in [Tcp, Udp] {
        for from in [Guest, Node, Far, Outside] {
            flows.push(Flow::new(from, protocol, Target::Unallocated(80), Dropped, why));
        }
    }
}
