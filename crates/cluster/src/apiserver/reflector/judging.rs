//! Taking in single objects, whatever they look like. One that cannot be used is passed over, counted and reported; it never
//! ends a list or a watch, for then everybody else's objects would not arrive either.

use std::sync::Arc;
use std::time::Instant;

use prost::bytes::Bytes;

use super::super::complaints::{Extent, Late, Word};
use super::super::events::{Event, IGNORED_ENTRIES, Regarding, UNUSABLE_OBJECT};
use super::super::resource::{Decoded, Identity};
use super::super::wire::Encoding;
use super::Reflector;
use crate::{ObjectChange, ObjectKey};

impl Reflector {
    /// An object that cannot be used leaves its last usable version in use.
    pub(super) fn take_object(
        &mut self,
        object: Bytes,
        encoding: Encoding,
        changes: &mut Vec<ObjectChange>,
    ) -> Identity {
        let Decoded { identity, outcome } = self.resource.decode(object, encoding);
        match outcome {
            Ok(translated) => {
                match translated.flaws.is_empty() {
                    true => self.note_usable(identity.key.as_ref()),
                    false => self.complain(&identity, Extent::Part, &translated.flaws.to_string()),
                }
                changes.push(translated.outcome.into_change());
            }
            Err(why) => self.complain(&identity, Extent::Whole, &why),
        }
        identity
    }

    fn note_usable(&mut self, key: Option<&ObjectKey>) {
        if self.complaints.is_empty() {
            return;
        }
        let Some(key) = key else { return };
        if self.complaints.resolve(&key.path) == Word::Resolved {
            tracing::info!(object = %key, "Resolved: the object is valid again");
        }
        self.tell_unusable();
    }

    /// An object is gone. If its name cannot be read, it is not known which.
    pub(super) fn take_deletion(
        &mut self,
        object: Bytes,
        encoding: Encoding,
        changes: &mut Vec<ObjectChange>,
    ) -> Identity {
        let identity = self.resource.identify(object, encoding);
        match &identity.key {
            Some(key) => {
                if !self.complaints.is_empty() {
                    self.complaints.forget(&key.path);
                    self.tell_unusable();
                }
                changes.push(ObjectChange::Delete(key.clone()));
            }
            None => self.complain(&identity, Extent::Whole, "it is gone, and its name cannot be read"),
        }
        identity
    }

    fn complain(&mut self, identity: &Identity, extent: Extent, why: &str) {
        self.link.observer.passed_over(self.resource.kind, extent);
        let path: Arc<str> = identity.key.as_ref().map(|key| key.path.clone()).unwrap_or_default();
        let word = self.complaints.complain(&path, extent, why, Instant::now());
        self.tell_unusable();
        let version = identity.version.as_deref();
        let Word::Complaint { left_out } = word else {
            let object = self.named(identity.key.as_ref());
            tracing::debug!(object, version, "An object of the apiserver cannot be used: {why}");
            return;
        };
        self.report(identity.key.as_ref(), version, extent, why, left_out);
    }

    /// Complaints that had to wait, as far as they may be made now.
    pub(super) fn report_late(&mut self) {
        while let Some(Late { path, extent, why, left_out }) = self.complaints.take_late(Instant::now()) {
            let key = (!path.is_empty()).then_some(ObjectKey { kind: self.resource.kind, path });
            self.report(key.as_ref(), None, extent, &why, left_out);
        }
    }

    fn report(
        &self,
        key: Option<&ObjectKey>,
        version: Option<&str>,
        extent: Extent,
        why: &str,
        left_out: u64,
    ) {
        let object = self.named(key);
        match extent {
            Extent::Whole => tracing::error!(
                object,
                version,
                left_out,
                "Cannot use an object of the apiserver: {why}; keeping its last usable version"
            ),
            Extent::Part => tracing::warn!(
                object,
                version,
                left_out,
                "Ignoring entries of an object of the apiserver: {why}; using the rest"
            ),
        }
        self.record(key, extent, why);
    }

    fn named(&self, key: Option<&ObjectKey>) -> String {
        match key {
            Some(key) => key.to_string(),
            None => format!("{} without a readable name", self.resource.kind),
        }
    }

    fn record(&self, key: Option<&ObjectKey>, extent: Extent, why: &str) {
        let Some(key) = key else { return };
        let node = self.link.node();
        let (reason, note) = match extent {
            Extent::Whole => (
                UNUSABLE_OBJECT,
                format!("Node {node} cannot use this object and keeps its last usable version: {why}"),
            ),
            Extent::Part => (
                IGNORED_ENTRIES,
                format!("Node {node} ignores entries of this object and uses the rest: {why}"),
            ),
        };
        let regarding = Regarding::from(key);
        self.recorder.record(Event { regarding, reason, action: "Read", is_warning: true, note });
    }

    pub(super) fn tell_unusable(&self) {
        for extent in Extent::ALL {
            self.link.observer.unusable(self.resource.kind, extent, self.complaints.count(extent));
        }
    }
}
