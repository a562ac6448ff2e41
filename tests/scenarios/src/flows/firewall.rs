//! `loadBalancerSourceRanges`.

use super::prelude::*;

pub(super) fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    let why =
        "sources inside the ranges reach the balancer IP, all others are dropped, pods and the node too";
    for protocol in [Tcp, Udp, Sctp] {
        flows.push(Flow::new(Outside, protocol, balancer("guarded"), Answered(ALL, Rewritten), why));
        for from in [OutsideSecond, Guest, Node, Far, OutsideAsBalancer] {
            flows.push(Flow::new(from, protocol, balancer("guarded"), Dropped, why));
        }
    }
    let why = "source ranges are for balancer IPs only";
    for from in [OutsideSecond, Guest, Node] {
        flows.push(Flow::new(from, Tcp, external("guarded"), Answered(ALL, Rewritten), why));
        flows.push(Flow::new(from, Tcp, Target::NodePort("guarded"), Answered(ALL, Rewritten), why));
        flows.push(Flow::new(from, Tcp, cluster("guarded"), Answered(ALL, ByDetector), why));
    }
    let why = "a range that holds the node's address admits the node, and the balancer's own addresses";
    for protocol in [Tcp, Udp] {
        for from in [Node, OutsideAsBalancer] {
            flows.push(Flow::new(from, protocol, balancer("guarded-node"), Answered(ALL, Rewritten), why));
        }
        for from in [Guest, Outside] {
            flows.push(Flow::new(from, protocol, balancer("guarded-node"), Dropped, why));
        }
    }
    let why = "a range of length 0 admits everybody";
    for from in [Outside, OutsideSecond, Guest, Node] {
        flows.push(Flow::new(from, Tcp, balancer("guarded-open"), Answered(ALL, Rewritten), why));
    }
    let why = "ranges of several lengths: one that fits is enough";
    for from in [OutsideSecond, Guest, Far] {
        flows.push(Flow::new(from, Tcp, balancer("guarded-nets"), Answered(ALL, Rewritten), why));
    }
    for from in [Outside, Node] {
        flows.push(Flow::new(from, Tcp, balancer("guarded-nets"), Dropped, why));
    }
    let why = "ranges and policy Local hold together";
    flows.push(Flow::new(Outside, Tcp, balancer("guarded-local"), Answered(LOCAL, Kept), why));
    for from in [OutsideSecond, Guest] {
        flows.push(Flow::new(from, Tcp, balancer("guarded-local"), Dropped, why));
    }
    let why = "who may not come in does not learn that nobody is there";
    flows.push(Flow::new(Outside, Tcp, balancer("guarded-empty"), Rejected, why));
    flows.push(Flow::new(OutsideSecond, Tcp, balancer("guarded-empty"), Dropped, why));
    let why = "each family has its own ranges; none means everybody";
    let to = balancer("guarded-v4");
    flows.push(Flow::new(OutsideSecond, Tcp, to, Dropped, why).only(&[Family::V4]));
    flows.push(Flow::new(OutsideSecond, Tcp, to, Answered(ALL, Rewritten), why).only(&[Family::V6]));
    flows
}
