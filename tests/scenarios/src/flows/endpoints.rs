//! Which endpoints are used: conditions, topology hints, merged slices, host network.

use super::prelude::*;

pub(super) fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    conditions(&mut flows);
    topology(&mut flows);
    host_network(&mut flows);
    flows
}

fn conditions(flows: &mut Vec<Flow>) {
    for from in [Guest, Outside] {
        let why = "neither unready nor terminating endpoints are used while one is ready";
        flows.push(Flow::new(from, Tcp, cluster("mixed"), Answered(A, ByDetector), why));
        let why = "if none is ready, those that terminate but still serve are used";
        flows.push(Flow::new(from, Tcp, cluster("fading"), Answered(A, ByDetector), why));
        flows.push(Flow::new(from, Udp, cluster("fading"), Answered(A, ByDetector), why));
        let why = "of an endpoint in two slices the ready one counts";
        flows.push(Flow::new(from, Tcp, cluster("doubted"), Answered(A, ByDetector), why));
    }
    let why = "the fallback to terminating endpoints is judged per node under policy Local, \
               and over all for those inside";
    for to in doors("fading-local") {
        for from in [Guest, Far, Outside] {
            let flow = Flow::new(from, Tcp, to, Rejected, why);
            flows.push(flow.split(Answered(C, Kept), Answered(A, Kept)));
        }
    }
    let why = "policy Local leaves out endpoints of which no slice says where they are";
    for to in doors("nowhere-local") {
        for from in [Guest, Outside] {
            flows.push(Flow::new(from, Tcp, to, Rejected, why).split(Answered(ALL, Kept), Answered(A, Kept)));
        }
    }
    let why = "an endpoint that two slices name counts once";
    flows.push(Flow::new(Guest, Tcp, cluster("merged"), Answered(ALL, ByDetector), why).asking(Evenly));
}

fn topology(flows: &mut Vec<Flow>) {
    for from in [Guest, Node, Outside] {
        let why = "zone hints on all endpoints: those for the node's zone";
        flows.push(Flow::new(from, Tcp, cluster("zoned"), Answered(A_C, ByDetector), why));
        let why = "a hint that an endpoint lacks does not count for any";
        flows.push(Flow::new(from, Tcp, cluster("half-zoned"), Answered(ALL, ByDetector), why));
        let why = "hints for other zones only: all endpoints";
        flows.push(Flow::new(from, Tcp, cluster("other-zone"), Answered(ALL, ByDetector), why));
        let why = "node hints come before zone hints";
        flows.push(Flow::new(from, Tcp, cluster("node-hinted"), Answered(B, ByDetector), why));
        let why = "node hints for other nodes only: zone hints decide";
        flows.push(Flow::new(from, Tcp, cluster("other-node"), Answered(B, ByDetector), why));
    }
    let why = "policy Local knows no hints; the short circuit does";
    for to in doors("zoned-local") {
        for from in [Guest, Outside] {
            let flow = Flow::new(from, Tcp, to, Rejected, why);
            flows.push(flow.split(Answered(C, Kept), Answered(LOCAL, Kept)));
        }
    }
}

fn host_network(flows: &mut Vec<Flow>) {
    let why = "an endpoint in this node's host network sees the client, because nothing is sent out";
    for from in [Guest, Node, Far, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("hosted"), Answered(NODE, Kept), why));
        for to in doors("hosted") {
            flows.push(Flow::new(from, Tcp, to, Answered(NODE, Kept), why));
        }
    }
    flows.push(Flow::new(Outside, Udp, Target::NodePort("hosted"), Answered(NODE, Kept), why));
    for to in doors("hosted-local") {
        for from in [Guest, Node, Outside] {
            flows.push(Flow::new(from, Tcp, to, Answered(NODE, Kept), why));
        }
    }
    let why = "an endpoint in another node's host network is reached as a pod would be";
    for from in [Guest, Node, NodeOuter, Far, Outside] {
        flows.push(Flow::new(from, Tcp, cluster("far-hosted"), Answered(REMOTE, ByDetector), why));
        for to in doors("far-hosted") {
            flows.push(Flow::new(from, Tcp, to, Answered(REMOTE, Rewritten), why));
        }
    }
}
