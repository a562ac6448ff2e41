//! Which node this agent takes itself for, and how it recognises that node's traffic. What a changed configuration asks
//! for comes into force once enough is known of it: rules that are written as before serve better than none.

use std::time::{Duration, Instant};

use cluster::NodeFacts;
use config::DetectLocal;

use crate::own_node::OwnNode;

#[derive(Debug)]
pub(crate) struct Identity {
    current: OwnNode,
    /// What the configuration asks for, while it is waited for.
    next: Option<OwnNode>,
    /// Another name was asked for, and the apiserver has not listed Nodes since: that one is missing says nothing.
    awaits_list: bool,
}

impl Identity {
    pub(crate) fn new(node: OwnNode) -> Identity {
        Identity { current: node, next: None, awaits_list: false }
    }

    /// The one in force.
    pub(crate) fn current(&self) -> &OwnNode {
        &self.current
    }

    /// The configuration asks for this node and detector from now on.
    pub(crate) fn reconfigure(&mut self, name: &str, detect_local: &DetectLocal, awaits_addresses: bool) {
        let asked_for = self.next.as_ref().unwrap_or(&self.current).name();
        // Manifests are known as a whole, whatever the name.
        self.awaits_list |= awaits_addresses && asked_for != name;
        match self.current.is_open() {
            true => self.next = Some(self.current.successor(name, detect_local, awaits_addresses)),
            // Nothing is programmed that could be kept.
            false => *self = Identity::new(OwnNode::new(name, detect_local, awaits_addresses)),
        }
    }

    /// The apiserver has listed the Nodes that it is asked about.
    pub(crate) fn nodes_listed(&mut self) {
        self.awaits_list = false;
    }

    /// Take in what the Node objects say now, and move on to what the configuration asks for if that is known by now.
    pub(crate) fn observe<'a>(&mut self, node: impl Fn(&str) -> Option<&'a NodeFacts>, now: Instant) {
        let found = node(self.current.name());
        // Once another name is asked for, the apiserver is no longer asked about this one: no news is no bad news.
        let is_followed = self.next.as_ref().is_none_or(|next| next.name() == self.current.name());
        if found.is_some() || is_followed && !self.awaits_list {
            self.current.observe(found);
        }
        let Some(mut next) = self.next.take() else { return };
        let found = node(next.name());
        if found.is_some() || !self.awaits_list {
            next.observe(found);
        }
        if !next.is_known(now) {
            self.next = Some(next);
            return;
        }
        if next.was_missed() {
            tracing::info!(
                node = %next.name(),
                "Resolved: the changed node name and detection of local traffic are in use"
            );
        }
        self.current = next;
    }

    /// Whether enough is known to write rules.
    pub(crate) fn is_known(&mut self, now: Instant) -> bool {
        self.current.is_known(now)
    }

    /// Whether the configuration asks for a node or detector that is not known yet, while rules follow the previous one.
    pub(crate) fn is_changing(&self) -> bool {
        self.next.is_some()
    }

    /// When to look again although nothing came.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Duration> {
        self.next.as_ref().unwrap_or(&self.current).next_look(now)
    }
}

#[cfg(test)]
#[path = "../tests/unit/identity.rs"]
mod tests;
