//! The world of the flow table as objects of the API.
//!
//! The table also describes services that no apiserver accepts; a proxy meets them in manifests only. What the
//! API refuses is amended here, and nowhere else: each [`Rule`] names the API's words and how many services
//! they are said of, so that nothing is left out unnoticed.

mod rules;

use std::collections::BTreeMap;
use std::time::SystemTime;

use ipnet::IpNet;
use sandbox::address;
use serde_json::{Value, json};
use test_support::directory::{NODE, ZONE};
use test_support::world::{Entry, World};
use test_support::{SOON, manifest, wait_until};

use crate::api::{Api, ApiError};
use crate::{paths, release};

pub use rules::{RULES, Rule};

/// The one that loses a shared address because it is the younger one.
const YOUNGER: &str = "rookie";

/// Which rules were needed for which services.
#[derive(Clone, Debug, Default)]
pub struct Amended(BTreeMap<&'static str, Vec<String>>);

impl Amended {
    /// A line a rule, for the report.
    pub fn lines(&self) -> Vec<String> {
        let line = |rule: &Rule| {
            let services = self.services(rule);
            format!("{}, {} services: {}", rule.name, services.len(), services.join(" "))
        };
        RULES.iter().map(line).collect()
    }

    /// Rules that were needed more often or less often than they say.
    pub fn surprises(&self) -> Vec<String> {
        let odd = RULES.iter().filter(|rule| self.services(rule).len() != rule.services);
        odd.map(|rule| {
            format!("{}: {} services, not {}", rule.name, self.services(rule).len(), rule.services)
        })
        .collect()
    }

    fn services(&self, rule: &Rule) -> &[String] {
        self.0.get(rule.name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Create everything of the world: node, services with their status, slices. The ServiceCIDR is there already,
/// by the apiserver's flags, and is compared; older releases have none.
pub fn bring_in(api: &Api, world: &World) -> Result<Amended, String> {
    if release::has_service_cidrs() {
        let cidrs: [IpNet; 2] = [address::SERVICES_V4.into(), address::SERVICES_V6.into()];
        let wanted = manifest::service_cidr("kubernetes", &cidrs);
        let found = api.get(&paths::object(&wanted)).map_err(|e| e.to_string())?;
        expect_within("ServiceCIDR", &wanted["spec"], &found["spec"])?;
    }
    let node = manifest::node(NODE, ZONE, &[address::NODE_V4.into(), address::NODE_V6.into()]);
    let found = api.create(paths::NODES, &node).map_err(|e| e.to_string())?;
    expect_within("node", &node["status"], &found["status"])?;

    let mut amended = Amended::default();
    let (younger, others): (Vec<&Entry>, Vec<&Entry>) =
        world.entries().iter().partition(|entry| entry.manifest.name() == YOUNGER);
    for entry in others {
        create(api, entry, &mut amended)?;
    }
    await_next_second()?;
    for entry in younger {
        create(api, entry, &mut amended)?;
    }
    Ok(amended)
}

/// Creation times are in whole seconds.
fn await_next_second() -> Result<(), String> {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let before = now();
    let passed = wait_until(SOON, || now() > before);
    if passed { Ok(()) } else { Err("the clock stands still".to_owned()) }
}

fn create(api: &Api, entry: &Entry, amended: &mut Amended) -> Result<(), String> {
    let name = entry.manifest.name();
    let mut service = entry.manifest.to_json();
    let found = until_accepted(&mut service, amended, |service| api.create(paths::SERVICES, service))?;
    expect_within(name, &service["spec"], &found["spec"])?;
    // A status that comes with a new object is ignored.
    let path = paths::object(&service);
    let status = |service: &Value| api.patch_status(&path, &json!({"status": service["status"]}));
    let found = until_accepted(&mut service, amended, status)?;
    expect_within(name, &service["status"], &found["status"])?;
    for slice in &entry.slices {
        let mut slice = slice.to_json();
        if !release::has_node_hints() {
            drop_node_hints(&mut slice);
        }
        let found = api.create(paths::SLICES, &slice).map_err(|e| format!("a slice of {name}: {e}"))?;
        for part in ["endpoints", "ports", "addressType"] {
            expect_within(&format!("a slice of {name}"), &slice[part], &found[part])?;
        }
    }
    Ok(())
}

fn drop_node_hints(slice: &mut Value) {
    for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
        if let Some(hints) = endpoint["hints"].as_object_mut() {
            hints.remove("forNodes");
        }
    }
}

fn until_accepted(
    service: &mut Value,
    amended: &mut Amended,
    send: impl Fn(&Value) -> Result<Value, ApiError>,
) -> Result<Value, String> {
    loop {
        match send(service) {
            Ok(found) => return Ok(found),
            Err(error) => amend(service, &error, amended)?,
        }
    }
}

/// Change what the API refuses, by the first rule whose words it uses.
fn amend(service: &mut Value, error: &ApiError, amended: &mut Amended) -> Result<(), String> {
    let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let ApiError::Refused { status: 422, message, .. } = error else {
        return Err(format!("{name}: {error}"));
    };
    let known = RULES.iter().find(|rule| message.contains(rule.words));
    let rule = known.ok_or_else(|| format!("no rule for what is refused: {error}"))?;
    let services = amended.0.entry(rule.name).or_default();
    if services.contains(&name) {
        return Err(format!("{name}: rule {:?} does not help: {error}", rule.name));
    }
    services.push(name);
    (rule.amend)(service);
    Ok(())
}

/// Everything that was sent is there: the API also drops fields without a word.
fn expect_within(what: &str, sent: &Value, found: &Value) -> Result<(), String> {
    match missing(sent, found) {
        None => Ok(()),
        Some(path) => Err(format!("{what}: the API did not keep {path}\nsent  {sent}\nfound {found}")),
    }
}

/// The path of the first value of `sent` that `found` does not have.
fn missing(sent: &Value, found: &Value) -> Option<String> {
    match (sent, found) {
        (Value::Object(sent), Value::Object(found)) => sent.iter().find_map(|(key, value)| {
            let path = missing(value, found.get(key).unwrap_or(&Value::Null))?;
            Some(format!("/{key}{path}"))
        }),
        (Value::Array(sent), Value::Array(found)) if sent.len() == found.len() => {
            let mut pairs = sent.iter().zip(found).enumerate();
            pairs.find_map(|(at, (sent, found))| missing(sent, found).map(|path| format!("/{at}{path}")))
        }
        // An empty list is not kept apart from none.
        (Value::Array(sent), Value::Null) if sent.is_empty() => None,
        _ if sent == found => None,
        _ => Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_drops_is_noticed() {
        let sent = json!({"a": [{"b": 1}], "c": []});
        assert_eq!(missing(&sent, &json!({"a": [{"b": 1, "more": 2}], "d": 3})), None);
        assert_eq!(missing(&sent, &json!({"a": [{"more": 2}]})), Some("/a/0/b".to_owned()));
        assert_eq!(missing(&sent, &json!({"a": []})), Some("/a".to_owned()));
    }
}
