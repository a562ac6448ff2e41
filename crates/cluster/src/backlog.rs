//! Updates that wait to be taken in, no more than one for each object: however long they wait, they need
//! no more room than the objects themselves.
//!
//! Pure. Taking in what comes out leaves a [`ClusterState`](crate::ClusterState) as all that went in would have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::manifests::ManifestProblem;
use crate::{Kind, Object, ObjectChange, ObjectKey, Update, Value};

/// Problems of one document that wait to be reported; an older one is outdated by then.
const PROBLEMS_PER_PLACE: usize = 16;

#[derive(Debug, Default)]
pub struct Backlog {
    /// By [`Kind::index`]. Objects of different kinds do not depend on each other's order.
    kinds: [OfKind; Kind::ALL.len()],
    problems: Problems,
}

/// In the order in which it is taken in.
#[derive(Debug, Default)]
struct OfKind {
    /// What lists since then had in common.
    retain: Option<HashSet<Arc<str>>>,
    /// The last change of each object.
    changes: HashMap<Arc<str>, ObjectChange>,
    is_synced: bool,
}

#[derive(Debug, Default)]
struct Problems {
    new: BTreeMap<String, Vec<ManifestProblem>>,
    solved: BTreeMap<String, ManifestProblem>,
}

impl Backlog {
    pub fn add(&mut self, update: Update) {
        match update {
            Update::Changes(changes) => changes.into_iter().for_each(|change| self.change(change)),
            Update::Retain(kind, listed) => self.of(kind, |waiting| waiting.retain(listed)),
            Update::Synced(kind) => self.of(kind, |waiting| waiting.is_synced = true),
            Update::Problems { new, solved } => self.problems.add(new, solved),
        }
    }

    /// Everything that waits.
    pub fn take(&mut self) -> Vec<Update> {
        let mut updates = Vec::new();
        for kind in Kind::ALL {
            self.of(kind, |waiting| updates.extend(std::mem::take(waiting).into_updates(kind)));
        }
        updates.extend(std::mem::take(&mut self.problems).into_update());
        updates
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.iter().all(OfKind::is_empty) && self.problems.is_empty()
    }

    /// How many changes wait.
    pub fn changes(&self) -> usize {
        self.kinds.iter().map(|waiting| waiting.changes.len()).sum()
    }

    fn change(&mut self, change: ObjectChange) {
        let ObjectKey { kind, path } = match &change {
            ObjectChange::Apply(object) => object.key.clone(),
            ObjectChange::Delete(key) => key.clone(),
        };
        self.of(kind, |waiting| waiting.change(path, change));
    }

    fn of(&mut self, kind: Kind, act: impl FnOnce(&mut OfKind)) {
        if let Some(waiting) = self.kinds.get_mut(kind.index()) {
            act(waiting);
        }
    }
}

impl OfKind {
    fn change(&mut self, path: Arc<str>, mut change: ObjectChange) {
        if let Some(earlier) = self.changes.get(&path) {
            keep_trigger(earlier, &mut change);
        }
        self.changes.insert(path, change);
    }

    /// What is not listed is gone, whether known or still waiting. Changes that wait for listed objects stay: they are
    /// taken in after this.
    fn retain(&mut self, listed: HashSet<Arc<str>>) {
        self.changes.retain(|path, _| listed.contains(path));
        self.retain = Some(match self.retain.take() {
            None => listed,
            Some(mut both) => {
                both.retain(|path| listed.contains(path));
                both
            }
        });
    }

    fn is_empty(&self) -> bool {
        self.retain.is_none() && self.changes.is_empty() && !self.is_synced
    }

    fn into_updates(self, kind: Kind) -> impl Iterator<Item = Update> {
        let retain = self.retain.map(|listed| Update::Retain(kind, listed));
        let changes =
            (!self.changes.is_empty()).then(|| Update::Changes(self.changes.into_values().collect()));
        let synced = self.is_synced.then_some(Update::Synced(kind));
        [retain, changes, synced].into_iter().flatten()
    }
}

/// Traffic follows the earlier change no sooner than this one: what it waited counts.
fn keep_trigger(earlier: &ObjectChange, change: &mut ObjectChange) {
    let (
        ObjectChange::Apply(Object { value: Value::EndpointSlice(earlier), .. }),
        ObjectChange::Apply(object),
    ) = (earlier, change)
    else {
        return;
    };
    if let Value::EndpointSlice(record) = &mut object.value {
        record.triggered_ms = [earlier.triggered_ms, record.triggered_ms].into_iter().flatten().min();
    }
}

impl Problems {
    fn add(&mut self, new: Vec<ManifestProblem>, solved: Vec<ManifestProblem>) {
        for problem in new {
            let place = problem.place();
            self.solved.remove(&place);
            let at_place = self.new.entry(place).or_default();
            if at_place.len() == PROBLEMS_PER_PLACE {
                at_place.remove(0);
            }
            at_place.push(problem);
        }
        for problem in solved {
            let place = problem.place();
            self.new.remove(&place);
            self.solved.insert(place, problem);
        }
    }

    fn is_empty(&self) -> bool {
        self.new.is_empty() && self.solved.is_empty()
    }

    fn into_update(self) -> Option<Update> {
        let is_empty = self.is_empty();
        let (new, solved) = (self.new.into_values().flatten().collect(), self.solved.into_values().collect());
        (!is_empty).then_some(Update::Problems { new, solved })
    }
}

#[cfg(test)]
mod tests;
