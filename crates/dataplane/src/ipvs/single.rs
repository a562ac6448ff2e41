//! Cluster IPs outside every ServiceCIDR: each has a route of its own.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use model::{Change, NodePlan, ServicePlan};

/// Cluster IPs that no ServiceCIDR holds, and how many services have each.
pub(super) fn single_ips<'a>(
    plans: impl Iterator<Item = &'a ServicePlan>,
    node: &NodePlan,
) -> HashMap<IpAddr, u32> {
    let mut single = HashMap::new();
    for ip in plans.filter_map(|plan| single_ip(Some(plan), node)) {
        *single.entry(ip).or_default() += 1;
    }
    single
}

fn single_ip(plan: Option<&ServicePlan>, node: &NodePlan) -> Option<IpAddr> {
    plan?.cluster_ip.filter(|ip| !node.service_cidrs.iter().any(|net| net.contains(ip)))
}

/// Routes that come with the changes and routes that go with them.
pub(super) fn route_changes(
    single: &mut HashMap<IpAddr, u32>,
    changes: &[Change<'_>],
    node: &NodePlan,
) -> (Vec<IpNet>, Vec<IpNet>) {
    let (mut come, mut gone) = (BTreeSet::new(), BTreeSet::new());
    for ip in changes.iter().filter_map(|change| single_ip(change.new, node)) {
        let users = single.entry(ip).or_default();
        *users += 1;
        if *users == 1 {
            come.insert(IpNet::from(ip));
        }
    }
    for ip in changes.iter().filter_map(|change| single_ip(change.old, node)) {
        let Some(users) = single.get_mut(&ip) else { continue };
        *users -= 1;
        if *users == 0 {
            single.remove(&ip);
            gone.insert(IpNet::from(ip));
        }
    }
    (come.into_iter().collect(), gone.into_iter().collect())
}
