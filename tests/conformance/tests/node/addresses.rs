//! Node ports follow the addresses of the Node object.

use conformance_support::log::Mark;
use conformance_support::site::{Caller, Expect};
use sandbox::address;

use crate::cluster::{Cluster, remote_at};

pub(crate) fn changed(cluster: &Cluster) {
    let spot = cluster.spot("moving");
    let agent = spot.agent(&[]);
    let outside = Caller::Outside(None);
    let inner = [remote_at(address::NODE_V4), remote_at(address::NODE_V6)];
    let outer = [remote_at(address::NODE_OUTER_V4), remote_at(address::NODE_OUTER_V6)];
    let expect_at = |open: [_; 2], closed: [_; 2]| {
        open.into_iter().for_each(|to| spot.expect(outside, to, Expect::By(&["c"])));
        closed.into_iter().for_each(|to| spot.expect(outside, to, Expect::Refused));
    };
    expect_at(inner, outer);
    spot.set_addresses(&outer.map(|to| to.ip()));
    expect_at(outer, inner);
    // What is lost keeps its last value: a kubelet that starts may clear the list for a moment.
    let mark = Mark::now(&agent);
    spot.set_addresses(&[]);
    mark.await_line(&agent, &["no longer has addresses; keeping the last known ones"]);
    expect_at(outer, inner);
    spot.set_addresses(&inner.map(|to| to.ip()));
    expect_at(inner, outer);
    assert_eq!(agent.log().matches("All rules are in place").count(), 1, "{}", agent.log());
}
