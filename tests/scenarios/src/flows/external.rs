//! The three ways in from outside (external IP, load-balancer IP, node port) under both policies.

use super::prelude::*;

pub(super) fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    cluster_policy(&mut flows);
    local_policy(&mut flows);
    nobody(&mut flows);
    itself(&mut flows);
    flows
}

fn cluster_policy(flows: &mut Vec<Flow>) {
    let why = "externalTrafficPolicy Cluster: every endpoint, always masqueraded";
    for to in doors("open") {
        for protocol in [Tcp, Udp] {
            for from in [Guest, EndpointB, Node, Far, Outside] {
                flows.push(Flow::new(from, protocol, to, Answered(ALL, Rewritten), why));
            }
        }
        flows.push(Flow::new(Outside, Sctp, to, Answered(ALL, Rewritten), why));
        flows.push(Flow::new(OutsideSecond, Tcp, to, Answered(ALL, Rewritten), why));
    }
    let why = "every usable endpoint is as likely as any other";
    flows.push(
        Flow::new(Outside, Tcp, Target::NodePort("open"), Answered(ALL, Rewritten), why).asking(Evenly),
    );
    let why = "the cluster IP of a service with ways in is a cluster IP like any other";
    for from in [Guest, Node, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("open"), Answered(ALL, ByDetector), why));
    }
}

fn local_policy(flows: &mut Vec<Flow>) {
    let why = "externalTrafficPolicy Local: from outside to endpoints of this node, with the client's address; \
               pods and the node itself are short-circuited to all endpoints";
    for to in doors("local") {
        for protocol in [Tcp, Udp] {
            for from in [Guest, EndpointB, Node, Far, Outside] {
                let flow = Flow::new(from, protocol, to, Rejected, why);
                flows.push(flow.split(Answered(ALL, node_or_kept(from)), Answered(LOCAL, Kept)));
            }
        }
        flows.push(Flow::new(Outside, Sctp, to, Answered(LOCAL, Kept), why));
    }
    let why = "externalTrafficPolicy Local and none here: dropped for those outside, so that a balancer looks \
               elsewhere; pods and the node still reach all";
    for to in doors("away") {
        for protocol in [Tcp, Udp] {
            for from in [Guest, Node, NodeOuter, Far, Outside] {
                let flow = Flow::new(from, protocol, to, Rejected, why);
                flows.push(flow.split(Answered(C, node_or_kept(from)), Dropped));
            }
        }
    }
    let why = "externalTrafficPolicy does not concern the cluster IP";
    for from in [Guest, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("local"), Answered(ALL, ByDetector), why));
    }
    for from in [Guest, NodeOuter, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("away"), Answered(C, ByDetector), why));
    }
    let why = "external IPs of a service of type ClusterIP have a policy too";
    for from in [Guest, Outside] {
        let flow = Flow::new(from, Tcp, external("bare-external"), Rejected, why);
        flows.push(flow.split(Answered(A_C, Kept), Answered(A, Kept)));
    }
}

/// The node's own address is rewritten to an address of the node.
fn node_or_kept(from: super::Position) -> super::Source {
    if from.is_node() { Rewritten } else { Kept }
}

fn nobody(flows: &mut Vec<Flow>) {
    let why = "no usable endpoint anywhere: rejected at every address, under both policies";
    for service in ["empty", "empty-local"] {
        for to in doors(service) {
            for protocol in [Tcp, Udp] {
                for from in [Guest, Node, Outside] {
                    flows.push(Flow::new(from, protocol, to, Rejected, why));
                }
            }
        }
    }
    for to in doors("unready") {
        flows.push(Flow::new(Outside, Tcp, to, Rejected, why));
    }
    flows.push(Flow::new(Outside, Sctp, balancer("empty"), Rejected, why));
}

fn itself(flows: &mut Vec<Flow>) {
    let why = "an endpoint that reaches itself is masqueraded, whatever way it takes";
    for service in ["self", "self-local"] {
        for to in doors(service) {
            let source = if service == "self" { Rewritten } else { Kept };
            flows.push(Flow::new(EndpointB, Tcp, to, Answered(B, source), why));
            flows.push(Flow::new(EndpointB, Udp, to, Answered(B, source), why));
        }
    }
    let why = "a pod of another node that is short-circuited may draw itself, and is masqueraded then";
    for to in doors("far-self") {
        for protocol in [Tcp, Udp] {
            flows.push(Flow::new(Far, protocol, to, Rejected, why).split(Answered(FAR, Kept), Dropped));
        }
    }
    let why = "hairpin is for the endpoint itself: its neighbours keep their address under policy Local";
    for to in doors("self-local") {
        flows.push(Flow::new(Guest, Tcp, to, Answered(B, Kept), why));
        flows.push(Flow::new(Outside, Tcp, to, Answered(B, Kept), why));
    }
}
