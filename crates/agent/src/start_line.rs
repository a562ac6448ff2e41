//! One line at the start with what most questions about node ports and local traffic come down to.

use std::net::{IpAddr, SocketAddr};

use config::Options;
use model::{Family, LocalDetector, NodePlan, NodeView};

/// Once the node is known.
pub(crate) fn tell(options: &Options, node: &NodeView, detector: &LocalDetector, plans: [NodePlan; 2]) {
    let node_ips: Vec<IpAddr> = node.primary.iter().flatten().copied().collect();
    let nodeport_ips: Vec<IpAddr> = plans.iter().flat_map(|plan| plan.nodeport_ips.iter().copied()).collect();
    tracing::info!(
        node = %node.name,
        mode = options.mode.word(),
        node_ips = %listed(&node_ips),
        nodeport_addresses = %listed(&nodeport_ips),
        local = %detected(detector),
        probes = %served(options.healthz_bind_address),
        metrics = %served(options.metrics_bind_address),
        "Proxying for this node"
    );
}

fn listed(ips: &[IpAddr]) -> String {
    const MOST: usize = 10;
    let names: Vec<String> = ips.iter().take(MOST).map(ToString::to_string).collect();
    match ips.len() {
        0 => "none".to_owned(),
        count if count > MOST => format!("{} and {} more", names.join(","), count - MOST),
        _ => names.join(","),
    }
}

fn detected(detector: &LocalDetector) -> String {
    match detector {
        LocalDetector::None => "not detected".to_owned(),
        LocalDetector::Cidrs(nets) => {
            let of = |family| nets.iter().find(|net| Family::of_net(net) == family).map(ToString::to_string);
            let names: Vec<String> = Family::BOTH.into_iter().filter_map(of).collect();
            format!("sources in {}", names.join(","))
        }
        LocalDetector::Bridge(name) => format!("through bridge {name}"),
        LocalDetector::InterfacePrefix(prefix) => format!("through interfaces {prefix}*"),
    }
}

fn served(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "not served".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let ips: Vec<IpAddr> = (0..12).map(|last| [10, 0, 0, last].into()).collect();
        assert_eq!(listed(&[]), "none");
        assert_eq!(listed(&ips[..2]), "10.0.0.0,10.0.0.1");
        assert!(listed(&ips).ends_with("10.0.0.9 and 2 more"), "{}", listed(&ips));
    }

    #[test]
    fn every_detector_has_words() {
        let nets = ["10.244.0.0/16", "fd00::/48"].map(|net| net.parse().unwrap()).to_vec();
        assert_eq!(detected(&LocalDetector::Cidrs(nets)), "sources in 10.244.0.0/16,fd00::/48");
        assert_eq!(detected(&LocalDetector::None), "not detected");
        assert_eq!(detected(&LocalDetector::Bridge("cni0".into())), "through bridge cni0");
        assert_eq!(detected(&LocalDetector::InterfacePrefix("veth".into())), "through interfaces veth*");
    }
}
