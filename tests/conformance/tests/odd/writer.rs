//! Brings objects into the API, as JSON or protobuf, and counts what it takes.

use std::collections::BTreeMap;

use conformance_support::{Api, ApiError, paths};
use serde_json::{Value, json};
use test_support::protobuf;

/// How much of an object is shown when something fails.
const SHOWN: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Json,
    Protobuf,
}

pub(crate) struct Writer<'a> {
    api: &'a Api,
    accepted: usize,
    /// How often, by reason.
    refused: BTreeMap<String, usize>,
    /// What was done since [`Writer::forget`].
    told: Vec<String>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(api: &'a Api) -> Writer<'a> {
        Writer { api, accepted: 0, refused: BTreeMap::new(), told: Vec::new() }
    }

    /// Create it, or replace what is there.
    pub(crate) fn put(&mut self, object: &Value, spelling: Spelling) {
        let (path, collection) = (paths::object(object), paths::collection(object));
        let mut object = object.clone();
        let there = self.api.get(&path).ok();
        if let Some(there) = &there {
            object["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
            keep_addresses(there, &mut object);
        }
        let done = match (there.is_some(), spelling) {
            (false, Spelling::Json) => self.api.create(&collection, &object).map(drop),
            (true, Spelling::Json) => self.api.update(&path, &object).map(drop),
            (false, Spelling::Protobuf) => self.api.create_protobuf(&collection, protobuf::object(&object)),
            (true, Spelling::Protobuf) => self.api.update_protobuf(&path, protobuf::object(&object)),
        };
        self.count(&format!("{spelling:?} {path}"), &object, done);
    }

    pub(crate) fn patch(&mut self, path: &str, part: &Value) {
        let done = self.api.patch(path, part).map(drop);
        self.count(&format!("patch {path}"), part, done);
    }

    pub(crate) fn patch_status(&mut self, path: &str, part: &Value) {
        let done = self.api.patch_status(path, part).map(drop);
        self.count(&format!("patch the status of {path}"), part, done);
    }

    /// The same where there may be a balancer.
    pub(crate) fn patch_balancer(&mut self, path: &str, part: &Value) {
        if self.api.get(path).is_ok_and(|service| service["spec"]["type"] == "LoadBalancer") {
            self.patch_status(path, part);
        }
    }

    pub(crate) fn delete(&mut self, path: &str) {
        let done = self.api.delete(path).map(drop);
        self.count(&format!("delete {path}"), &Value::Null, done);
    }

    fn count(&mut self, what: &str, object: &Value, done: Result<(), ApiError>) {
        match done {
            Ok(()) => {
                self.accepted += 1;
                let text = object.to_string();
                let shown: String = text.chars().take(SHOWN).collect();
                self.told.push(format!("{what} {shown}"));
            }
            // Nothing is there to be changed or deleted: no oddity was tried.
            Err(ApiError::Refused { status: 404, .. }) => {}
            Err(ApiError::Refused { reason, message, .. }) => {
                // Without the object's name, values and what else differs from one to the next.
                let words = message.split(": ").skip(1).collect::<Vec<_>>().join(": ");
                let shown: String = words.chars().take(160).collect();
                *self.refused.entry(format!("{reason}: {shown}")).or_default() += 1;
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }

    pub(crate) fn told(&self) -> String {
        self.told.join("\n")
    }

    pub(crate) fn forget(&mut self) {
        self.told.clear();
    }

    fn refused(&self) -> usize {
        self.refused.values().sum()
    }

    pub(crate) fn tally(&self) -> String {
        format!("{} writes accepted, {} refused", self.accepted, self.refused())
    }

    pub(crate) fn accepted_percent(&self) -> usize {
        100 * self.accepted / (self.accepted + self.refused()).max(1)
    }

    pub(crate) fn refusals(&self) -> String {
        let mut sorted: Vec<_> = self.refused.iter().collect();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let lines = sorted.iter().take(30).map(|(why, count)| format!("{count} x {why}"));
        format!("{}\n{}", self.tally(), lines.collect::<Vec<_>>().join("\n"))
    }
}

/// A cluster IP cannot be changed; it is kept unless the service is to have none.
fn keep_addresses(there: &Value, object: &mut Value) {
    if object["kind"] != "Service" || object["spec"]["type"] == "ExternalName" {
        return;
    }
    let spec = &there["spec"];
    if spec["clusterIP"].as_str().is_none_or(str::is_empty) {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        object["spec"][field] = spec[field].clone();
    }
    if spec["healthCheckNodePort"].is_number() && object["spec"]["externalTrafficPolicy"] == "Local" {
        object["spec"]["healthCheckNodePort"] = json!(spec["healthCheckNodePort"]);
    }
}
