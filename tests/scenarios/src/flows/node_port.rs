//! Node ports: on which addresses of the node, and on no others.

use super::prelude::*;

pub(super) fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    let why = "nftables mode serves node ports on the primary address, unless told otherwise";
    for protocol in [Tcp, Udp] {
        for from in [Guest, Node, Far, Outside] {
            let flow = Flow::new(from, protocol, Target::OtherNodePort("open"), Untouched, why);
            flows.push(Flow { on_all_addresses: Some(Answered(ALL, Rewritten)), ..flow });
        }
    }
    let why = "policy Local holds on every address that serves node ports";
    let flow = Flow::new(Outside, Tcp, Target::OtherNodePort("local"), Untouched, why);
    flows.push(Flow { on_all_addresses: Some(Answered(LOCAL, Kept)), ..flow });
    let flow = Flow::new(Outside, Tcp, Target::OtherNodePort("away"), Untouched, why);
    flows.push(Flow { on_all_addresses: Some(Dropped), ..flow });
    let why = "loopback serves no node ports";
    flows.push(Flow::new(Node, Tcp, Target::LoopbackNodePort("open"), Untouched, why));
    let why = "one node port number for TCP and UDP is two ports";
    for from in [Guest, Node, Outside] {
        flows.push(Flow::new(from, Tcp, Target::NodePort("ports"), Answered(A_C, Rewritten), why));
        flows.push(Flow::new(from, Udp, Target::NodePort("ports"), Answered(A_C_SECOND, Rewritten), why));
    }
    let why = "the port of a service is no port of the node";
    flows.push(Flow::new(Outside, Tcp, Target::OnNode(80), Untouched, why));
    let why = "a service of type ClusterIP has no node ports, whatever its manifest says";
    flows.push(Flow::new(Outside, Tcp, Target::NodePort("web"), Untouched, why));
    let why = "a node port is served on the node's addresses only";
    flows.push(Flow::new(Outside, Tcp, Target::Vip(Range::Balancer, "open", 30100), Untouched, why));
    flows.push(Flow::new(Outside, Tcp, Target::Vip(Range::External, "open", 30100), Untouched, why));
    let why = "other ports of the node are none of our business";
    flows.push(Flow::new(Outside, Tcp, Target::OnNode(8080), Answered(NODE, Kept), why));
    flows.push(Flow::new(Guest, Udp, Target::OnNode(8080), Answered(NODE, Kept), why));
    flows
}
