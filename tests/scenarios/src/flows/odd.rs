//! Services that are not ours, addresses that two claim, services of one family.

use super::prelude::*;

pub(super) fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    let why = "a service of another proxy, or a headless one, is no service to us: its cluster IP is unallocated \
               and its other addresses are left alone";
    for service in ["foreign", "headless-label", "named"] {
        for from in [Guest, Outside] {
            flows.push(Flow::new(from, Tcp, cluster(service), Dropped, why));
            for to in doors(service) {
                flows.push(Flow::new(from, Tcp, to, Untouched, why));
            }
        }
    }
    for to in doors("headless") {
        flows.push(Flow::new(Outside, Tcp, to, Untouched, why));
    }
    let why = "two services claim an external IP: the older one has it";
    for from in [Guest, Node, Outside] {
        for protocol in [Tcp, Udp] {
            flows.push(Flow::new(from, protocol, external("veteran"), Answered(A, Rewritten), why));
        }
    }
    let why = "who lost one address keeps the others";
    flows.push(Flow::new(Guest, Tcp, cluster("rookie"), Answered(C, ByDetector), why));
    flows.push(Flow::new(Guest, Tcp, cluster("veteran"), Answered(A, ByDetector), why));
    let why = "a balancer address of ipMode Proxy is left to the balancer";
    for from in [Guest, Node, Outside] {
        flows.push(Flow::new(from, Tcp, balancer("proxied"), Untouched, why));
    }
    flows.push(Flow::new(Outside, Tcp, Target::NodePort("proxied"), Answered(ALL, Rewritten), why));
    let why = "a service lives in the families of its cluster IPs, whatever other addresses it lists";
    for (service, has, lacks) in
        [("only-v4", &[Family::V4], &[Family::V6]), ("only-v6", &[Family::V6], &[Family::V4])]
    {
        for to in doors(service) {
            flows.push(Flow::new(Outside, Tcp, to, Answered(ALL, Rewritten), why).only(has));
            flows.push(Flow::new(Outside, Tcp, to, Untouched, why).only(lacks));
        }
        flows.push(Flow::new(Guest, Tcp, cluster(service), Answered(ALL, ByDetector), why).only(has));
        flows.push(Flow::new(Guest, Tcp, cluster(service), Dropped, why).only(lacks));
    }
    flows
}
