//! What is measured with a real apiserver, and that it has the shape that upstream's kube-proxy gives it.

use std::collections::{BTreeMap, BTreeSet};

use conformance_support::Service;
use conformance_support::site::SOON;
use test_support::node_agent::get;
use test_support::wait_until;

use crate::world::World;

const METRICS: &str = "127.0.0.1:10249";

/// Type, names of labels and bounds of a metric.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    kind: String,
    labels: BTreeSet<String>,
    bounds: BTreeSet<String>,
}

pub(crate) fn as_upstream(world: &mut World) {
    let service = Service::tcp("measured", 71);
    world.create(service, "a");
    let mut agent = world.agent("metrics");
    world.await_answer(service, "a");
    for kind in ["Service", "EndpointSlice", "Node", "ServiceCIDR"] {
        let watching = format!("pointsman_reflector_state{{kind=\"{kind}\",state=\"watching\"}} 1\n");
        let follows = || agent.metrics().is_some_and(|page| page.contains(&watching));
        assert!(wait_until(SOON, follows), "{:?}", agent.metrics());
    }
    let page = agent.metrics().unwrap();
    assert!(
        page.contains("rest_client_requests_total{code=\"200\",method=\"GET\",host=\"127.0.0.1:"),
        "{page}"
    );
    let ours = shapes(&page);
    agent.stop().unwrap();

    let mut upstream = world.upstream();
    world.point_at(service, "b");
    world.await_answer(service, "b");
    let theirs = world.ground.sandbox.node.run(|| get(METRICS.parse().unwrap(), "/metrics")).unwrap();
    let theirs = shapes(&theirs);
    upstream.stop().unwrap();
    world.delete(service);
    compare(&ours, &theirs);
}

/// Whatever upstream shows of a proxy we show alike. Of its client's metrics we have some, and those alike.
fn compare(ours: &BTreeMap<String, Shape>, theirs: &BTreeMap<String, Shape>) {
    let of_proxy = theirs.iter().filter(|(name, _)| name.starts_with("kubeproxy_"));
    let lacking: Vec<&String> =
        of_proxy.clone().map(|(name, _)| name).filter(|name| !ours.contains_key(*name)).collect();
    assert!(lacking.is_empty() && of_proxy.count() > 8, "{lacking:?} of {:?}", theirs.keys());
    let others = ["kubeproxy_", "rest_client_", "process_", "kubernetes_"];
    let shared = theirs.iter().filter(|(name, _)| others.iter().any(|prefix| name.starts_with(prefix)));
    for (name, shape) in shared {
        if let Some(own) = ours.get(name) {
            assert_eq!(own, shape, "{name}");
        }
    }
}

fn shapes(page: &str) -> BTreeMap<String, Shape> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let mut name = "";
    for line in page.lines() {
        if let Some((declared, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            name = declared;
            shapes.insert(name.to_owned(), Shape { kind: kind.to_owned(), ..Shape::default() });
        } else if let Some(shape) = shapes.get_mut(name).filter(|_| line.starts_with(name)) {
            let labels =
                line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(labels, _)| labels);
            // No value here holds a quote or a comma.
            for (label, value) in
                labels.into_iter().flat_map(|text| text.split(',')).filter_map(|pair| pair.split_once('='))
            {
                match label {
                    "le" => drop(shape.bounds.insert(value.to_owned())),
                    label => drop(shape.labels.insert(label.to_owned())),
                }
            }
        }
    }
    shapes
}
