//! ClientIP session affinity.

use super::prelude::*;

pub(super) fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    let why = "ClientIP affinity: a client always meets the same endpoint";
    for protocol in [Tcp, Udp, Sctp] {
        for from in [Guest, EndpointB, Node, Far, Outside, OutsideSecond] {
            let flow = Flow::new(from, protocol, cluster("sticky"), Answered(ALL, ByDetector), why);
            flows.push(flow.asking(Sticky));
        }
    }
    let why = "ClientIP affinity holds at every address of the service";
    for to in doors("sticky") {
        for protocol in [Tcp, Udp] {
            for from in [Guest, Node, Outside] {
                flows.push(Flow::new(from, protocol, to, Answered(ALL, Rewritten), why).asking(Sticky));
            }
        }
    }
    let why = "affinity and policy Local: pinned to an endpoint of this node, or for those inside to any";
    for to in doors("sticky-local") {
        for from in [Guest, Outside] {
            let flow = Flow::new(from, Tcp, to, Rejected, why).asking(Sticky);
            flows.push(flow.split(Answered(ALL, Kept), Answered(LOCAL, Kept)));
        }
    }
    let why = "affinity pins each client apart: many of them use several endpoints";
    for to in [cluster("sticky"), Target::NodePort("sticky")] {
        let source = if to == cluster("sticky") { ByDetector } else { Rewritten };
        flows.push(Flow::new(Outside, Tcp, to, Answered(ALL, source), why).asking(ManyClients));
    }
    flows
}
