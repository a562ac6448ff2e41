//! This node as its Node object describes it: what to wait for at the start, and what stays known after.
//!
//! A Node that is gone, or lost its addresses, changes nothing that is programmed: a kubelet that registers
//! again does just that. Which node a changed configuration means is decided in [`Identity`](crate::identity::Identity).

use std::time::{Duration, Instant};

use cluster::NodeFacts;
use config::DetectLocal;
use model::LocalDetector;

/// A Node without addresses is waited for this long; then the kernel is asked for them.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(30);
/// How often a wait that goes on is mentioned.
const REMINDER: Duration = Duration::from_secs(60);

/// What keeps the first sync from being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Node,
    Addresses,
    PodCidrs,
}

/// Keeps the last word of the Node object, and the door shut until there is one.
#[derive(Debug)]
pub(crate) struct OwnNode {
    name: String,
    facts: Option<NodeFacts>,
    seen: Seen,
    /// An apiserver is to be waited for; manifests say all they have to say at once.
    awaits_addresses: bool,
    detect_local: DetectLocal,
    door: Door,
    /// Rules are written as another one says until this is known.
    is_successor: bool,
}

/// How the Node object was the last time we looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Absent,
    WithoutAddresses,
    WithAddresses,
}

impl Seen {
    fn of(facts: Option<&NodeFacts>) -> Seen {
        match facts {
            None => Seen::Absent,
            Some(facts) if facts.primary == [None; 2] => Seen::WithoutAddresses,
            Some(_) => Seen::WithAddresses,
        }
    }
}

/// Whether rules may be written.
#[derive(Clone, Copy, Debug)]
enum Door {
    /// Nobody has asked yet.
    Untried,
    /// Something is missing, which was said perhaps.
    Shut { since: Instant, said: Option<(Missing, Instant)> },
    /// Enough was known once. It stays open.
    Open { was_missed: bool },
}

impl OwnNode {
    pub(crate) fn new(name: &str, detect_local: &DetectLocal, awaits_addresses: bool) -> OwnNode {
        OwnNode {
            name: name.to_owned(),
            facts: None,
            seen: Seen::Absent,
            awaits_addresses,
            detect_local: detect_local.clone(),
            door: Door::Untried,
            is_successor: false,
        }
    }

    /// What a changed configuration takes this node for. What is known of a node of the same name stays known, and its
    /// addresses were waited for long enough.
    pub(crate) fn successor(
        &self,
        name: &str,
        detect_local: &DetectLocal,
        awaits_addresses: bool,
    ) -> OwnNode {
        let new = OwnNode { is_successor: true, ..OwnNode::new(name, detect_local, awaits_addresses) };
        match self.name == name {
            true => OwnNode { facts: self.facts.clone(), seen: self.seen, awaits_addresses: false, ..new },
            false => new,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Enough was known to write rules.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.door, Door::Open { .. })
    }

    /// The wait for it was mentioned.
    pub(crate) fn was_missed(&self) -> bool {
        match self.door {
            Door::Untried => false,
            Door::Shut { said, .. } => said.is_some(),
            Door::Open { was_missed } => was_missed,
        }
    }

    fn needs_pod_cidrs(&self) -> bool {
        self.detect_local == DetectLocal::NodeCidr
    }

    pub(crate) fn facts(&self) -> Option<&NodeFacts> {
        self.facts.as_ref()
    }

    /// Load balancers may send here: the node is not about to go, nor gone.
    pub(crate) fn is_eligible(&self) -> bool {
        self.facts.as_ref().is_none_or(|facts| self.seen != Seen::Absent && facts.eligible)
    }

    /// How traffic of this node's pods is recognised, as far as it is known.
    pub(crate) fn detector(&self) -> Option<LocalDetector> {
        match &self.detect_local {
            DetectLocal::Fixed(detector) => Some(detector.clone()),
            DetectLocal::NodeCidr => {
                let facts = self.facts.as_ref().filter(|facts| !facts.pod_cidrs.is_empty())?;
                Some(LocalDetector::Cidrs(facts.pod_cidrs.to_vec()))
            }
        }
    }

    /// Take in what the Node object says now.
    pub(crate) fn observe(&mut self, now: Option<&NodeFacts>) {
        let before = std::mem::replace(&mut self.seen, Seen::of(now));
        match (before, self.seen) {
            (Seen::WithoutAddresses | Seen::WithAddresses, Seen::Absent) => {
                tracing::warn!(node = %self.name, "Node object is gone; keeping its last known state");
            }
            (Seen::WithAddresses, Seen::WithoutAddresses) => {
                let node = &self.name;
                tracing::warn!(%node, "Node object no longer has addresses; keeping the last known ones");
            }
            _ => {}
        }
        let Some(now) = now else { return };
        let mut facts = now.clone();
        if let Some(last) = &self.facts {
            if facts.primary == [None; 2] {
                facts.primary = last.primary;
            }
            if facts.pod_cidrs.is_empty() && !last.pod_cidrs.is_empty() {
                facts.pod_cidrs = last.pod_cidrs.clone();
            }
        }
        self.facts = Some(facts);
    }

    /// Whether enough is known to write rules. Once open, the door stays open.
    pub(crate) fn is_known(&mut self, now: Instant) -> bool {
        let (since, said) = match self.door {
            Door::Open { .. } => return true,
            Door::Untried => (now, None),
            Door::Shut { since, said } => (since, said),
        };
        let waited = now.saturating_duration_since(since);
        self.door = match self.missing() {
            None => Door::Open { was_missed: said.is_some() },
            Some(missing) if self.is_worth_waiting(missing) || waited < ADDRESS_PATIENCE => {
                Door::Shut { since, said: Some(self.say(missing, said, now)) }
            }
            Some(_) => {
                tracing::error!(
                    node = %self.name, seconds = waited.as_secs(),
                    "Still no Node object with addresses; using the kernel's addresses. Is this the node's name \
                     in the cluster? See --hostname-override"
                );
                Door::Open { was_missed: said.is_some() }
            }
        };
        self.is_open()
    }

    /// When to look again although nothing came; `None` once there is nothing to wait for.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Duration> {
        let Door::Shut { since, said } = self.door else { return None };
        let deadline = (since + ADDRESS_PATIENCE).saturating_duration_since(now);
        let reminder = said.map_or(Duration::ZERO, |(_, at)| (at + REMINDER).saturating_duration_since(now));
        let for_ever = self.missing().is_some_and(|missing| self.is_worth_waiting(missing));
        Some(if for_ever { reminder } else { deadline.min(reminder) })
    }

    fn missing(&self) -> Option<Missing> {
        let needs_any = self.awaits_addresses || self.needs_pod_cidrs();
        match &self.facts {
            None if needs_any => Some(Missing::Node),
            Some(facts) if self.needs_pod_cidrs() && facts.pod_cidrs.is_empty() => Some(Missing::PodCidrs),
            Some(facts) if self.awaits_addresses && facts.primary == [None; 2] => Some(Missing::Addresses),
            _ => None,
        }
    }

    /// Addresses the kernel has, too; pod CIDRs only the Node object.
    fn is_worth_waiting(&self, missing: Missing) -> bool {
        self.needs_pod_cidrs() && missing != Missing::Addresses
    }

    /// Mention what is missing, unless that was said lately. Returns what was said last, and when.
    fn say(&self, missing: Missing, said: Option<(Missing, Instant)>, now: Instant) -> (Missing, Instant) {
        let is_recent = |(what, at): &(Missing, Instant)| {
            *what == missing && now.saturating_duration_since(*at) < REMINDER
        };
        if let Some(said) = said.filter(is_recent) {
            return said;
        }
        let what = match missing {
            Missing::Node => {
                "the Node object of this node; is this its name in the cluster? See --hostname-override"
            }
            Missing::Addresses => "the addresses of this node in its Node object",
            Missing::PodCidrs => {
                "the pod CIDRs of this node (detect-local-mode NodeCIDR); does the cluster allocate them?"
            }
        };
        match self.is_successor {
            false => tracing::warn!(node = %self.name, "Nothing is programmed yet: waiting for {what}"),
            true => tracing::warn!(
                node = %self.name,
                "Keeping the previous node name and detection of local traffic: the changed configuration waits for \
                 {what}"
            ),
        }
        (missing, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(address: bool, cidr: bool) -> NodeFacts {
        NodeFacts {
            primary: [address.then(|| "10.0.0.1".parse().unwrap()), None],
            pod_cidrs: if cidr { Box::new(["10.1.0.0/24".parse().unwrap()]) } else { Box::default() },
            eligible: true,
            ..NodeFacts::default()
        }
    }

    #[test]
    fn addresses_are_waited_for_but_not_for_ever() {
        let detect = DetectLocal::Fixed(LocalDetector::None);
        let start = Instant::now();
        let mut node = OwnNode::new("n", &detect, true);
        assert!(!node.is_known(start));
        node.observe(Some(&facts(false, false)));
        assert!(!node.is_known(start));
        assert_eq!(node.next_look(start), Some(ADDRESS_PATIENCE));
        assert!(node.is_known(start + ADDRESS_PATIENCE));
        assert_eq!(node.next_look(start + ADDRESS_PATIENCE), None);
        let mut prompt = OwnNode::new("n", &detect, true);
        prompt.observe(Some(&facts(true, false)));
        assert!(prompt.is_known(start));
        assert!(OwnNode::new("n", &detect, false).is_known(start), "manifests need no Node");
    }

    #[test]
    fn pod_cidrs_are_waited_for_for_ever_and_change_live() {
        let start = Instant::now();
        let mut node = OwnNode::new("n", &DetectLocal::NodeCidr, true);
        node.observe(Some(&facts(true, false)));
        assert!(!node.is_known(start + Duration::from_secs(3600)));
        node.observe(Some(&facts(true, true)));
        assert!(node.is_known(start));
        let cidrs = LocalDetector::Cidrs(vec!["10.1.0.0/24".parse().unwrap()]);
        assert_eq!(node.detector(), Some(cidrs.clone()));
        node.observe(None);
        assert_eq!(node.detector(), Some(cidrs), "a Node that registers again takes nothing away");
    }

    #[test]
    fn with_pod_cidrs_addresses_are_not_waited_for_for_ever() {
        let start = Instant::now();
        let mut node = OwnNode::new("n", &DetectLocal::NodeCidr, true);
        node.observe(Some(&facts(false, true)));
        assert!(!node.is_known(start));
        assert_eq!(node.next_look(start), Some(ADDRESS_PATIENCE));
        assert!(node.is_known(start + ADDRESS_PATIENCE));
    }

    #[test]
    fn a_node_that_goes_is_not_eligible() {
        let mut node = OwnNode::new("n", &DetectLocal::Fixed(LocalDetector::None), true);
        assert!(node.is_eligible(), "nothing is known yet");
        node.observe(Some(&facts(true, false)));
        assert!(node.is_eligible());
        node.observe(Some(&NodeFacts { eligible: false, ..facts(true, false) }));
        assert!(!node.is_eligible());
        node.observe(Some(&facts(true, false)));
        node.observe(None);
        assert!(!node.is_eligible());
        assert_eq!(node.facts().map(|facts| facts.primary), Some(facts(true, false).primary));
    }
}
