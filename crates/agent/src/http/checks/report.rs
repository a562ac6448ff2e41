//! The sync thread's end: what changed is reported once the rules that go with it are in place.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use cluster::ClusterState;
use model::{Family, NodePortAddresses, NodeView, ServiceKey};

use super::count::{addresses, check};
use super::{Check, CheckUpdate, Sender};

pub(crate) struct CheckReporter {
    sender: Sender,
    lanes: [Lane; 2],
}

/// One family's share. Only services with a check are ever in here.
#[derive(Default)]
struct Lane {
    /// Changed since the last sync.
    marked: HashSet<ServiceKey>,
    reported: HashMap<ServiceKey, Check>,
    addresses: Vec<IpAddr>,
}

impl CheckReporter {
    pub(super) fn new(sender: Sender) -> CheckReporter {
        CheckReporter { sender, lanes: [Lane::default(), Lane::default()] }
    }

    /// These services changed; their rules are about to.
    pub(crate) fn mark(&mut self, services: &[ServiceKey], state: &ClusterState) {
        let asks = |key: &str| state.service(key).is_some_and(|of| of.health_check_node_port.is_some());
        for key in services {
            let asks = asks(key);
            for lane in self.lanes.iter_mut().filter(|lane| asks || lane.reported.contains_key(key)) {
                lane.marked.insert(key.clone());
            }
        }
    }

    /// The rules of this family are as the state has them, but for services that still wait.
    pub(crate) fn synced(
        &mut self,
        family: Family,
        state: &ClusterState,
        node: &NodeView,
        selection: &NodePortAddresses,
        waits: impl Fn(&ServiceKey) -> bool,
    ) {
        let changes = self.lanes[family.index()].changes(family, state, node, selection, waits);
        if !changes.is_empty() {
            // The event loop ends only with the process.
            let _ = self.sender.send(changes);
        }
    }
}

impl Lane {
    fn changes(
        &mut self,
        family: Family,
        state: &ClusterState,
        node: &NodeView,
        selection: &NodePortAddresses,
        waits: impl Fn(&ServiceKey) -> bool,
    ) -> Vec<CheckUpdate> {
        let mut changes = Vec::new();
        let (waiting, synced): (HashSet<_>, HashSet<_>) =
            std::mem::take(&mut self.marked).into_iter().partition(waits);
        self.marked = waiting;
        for key in synced {
            let now = check(state, &key, &node.name, family);
            let before = match now {
                Some(check) => self.reported.insert(key.clone(), check),
                None => self.reported.remove(&key),
            };
            if now != before {
                changes.push(CheckUpdate::Check(family, key, now));
            }
        }
        if !self.reported.is_empty() {
            let now = addresses(node, selection, family);
            if now != self.addresses {
                self.addresses.clone_from(&now);
                changes.insert(0, CheckUpdate::Addresses(family, now));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::manifests::ManifestSource;
    use cluster::{Kind, ObjectKey, Update};
    use std::fs;

    /// Objects are easiest told as manifests.
    fn apply(state: &mut ClusterState, name: &str, text: &str) {
        let path = std::env::temp_dir().join(format!("pointsman-checks-{name}-{}.yaml", std::process::id()));
        fs::write(&path, text).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let deliver = move |update: Update| {
            let _ = tell.send(update);
            std::ops::ControlFlow::Continue(())
        };
        let watch = ManifestSource::new(&path).watch(deliver).unwrap();
        for update in told.iter() {
            let is_last = matches!(update, Update::Synced(Kind::ServiceCidr));
            if let Update::Changes(changes) = update {
                changes.into_iter().for_each(|change| state.change(change));
            }
            if is_last {
                break;
            }
        }
        drop(watch);
        let _ = fs::remove_file(&path);
    }

    const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: default}\nspec: {type: \
                           LoadBalancer, clusterIP: 10.0.0.1, externalTrafficPolicy: Local, healthCheckNodePort: \
                           32000, ports: [{port: 80}]}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: plain, \
                           namespace: default}\nspec: {clusterIP: 10.0.0.2, ports: [{port: 80}]}\n";
    const SLICE: &str = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, namespace: \
                         default, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{name: \"\", \
                         port: 8080}]\nendpoints: [{addresses: [10.1.0.1], nodeName: n}]\n";

    #[test]
    fn changes_are_reported_once_and_after_the_sync() {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let mut reporter = CheckReporter::new(sender);
        let mut state = ClusterState::default();
        let node = NodeView { name: "n".into(), ..NodeView::default() };
        let key: ServiceKey = "default/web".into();
        let services = [key.clone(), "default/plain".into()];
        let sync_but = |waiting: &str, reporter: &mut CheckReporter, state: &ClusterState| {
            for family in Family::BOTH {
                reporter.synced(family, state, &node, &NodePortAddresses::All, |key| **key == *waiting);
            }
        };
        let sync = |reporter: &mut CheckReporter, state: &ClusterState| sync_but("", reporter, state);
        let told =
            |endpoints| CheckUpdate::Check(Family::V4, key.clone(), Some(Check { port: 32000, endpoints }));
        apply(&mut state, "service", SERVICE);
        reporter.mark(&services, &state);
        assert!(receiver.try_recv().is_err(), "before the sync");
        sync(&mut reporter, &state);
        let everywhere = CheckUpdate::Addresses(Family::V4, vec!["0.0.0.0".parse().unwrap()]);
        assert_eq!(receiver.try_recv().unwrap(), [everywhere, told(0)]);
        apply(&mut state, "slice", SLICE);
        reporter.mark(&services, &state);
        sync_but("default/web", &mut reporter, &state);
        assert!(receiver.try_recv().is_err(), "its rules are not written yet");
        sync(&mut reporter, &state);
        sync(&mut reporter, &state);
        assert_eq!(receiver.try_recv().unwrap(), [told(1)]);
        assert!(receiver.try_recv().is_err(), "once, and nothing of IPv6 or of the plain service");
        assert_eq!(reporter.lanes[0].reported.len(), 1);
        state.delete(&ObjectKey::new(Kind::Service, "default", "web"));
        reporter.mark(&services, &state);
        sync(&mut reporter, &state);
        assert_eq!(receiver.try_recv().unwrap(), [CheckUpdate::Check(Family::V4, key.clone(), None)]);
        assert!(reporter.lanes.iter().all(|lane| lane.reported.is_empty() && lane.marked.is_empty()));
    }
}
