//! The text of one document → the objects in it. Pure.

use std::hash::{BuildHasher, RandomState};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::list::for_each_item;
use super::yaml;
use crate::objects::{self, Header};
use crate::translate::{self, Invalid, Outcome, Skip};
use crate::{Kind, Object};

/// How a file is written, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Yaml,
    Json,
}

/// Where an object is read from.
pub(super) enum Text<'a> {
    Document(Format, &'a str),
    /// An item of a list, already parsed.
    Item(&'a Json),
}

/// Why a document, or an object in it, cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) object: Option<String>,
    /// Line and column within the document, from 1.
    pub(super) position: Option<(u64, u64)>,
    pub(super) field: Option<String>,
    pub(super) message: String,
}

/// What one document yields.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// Each with a hash of the content it was made from.
    pub(super) objects: Vec<(Object, u64)>,
    pub(super) faults: Vec<Fault>,
}

/// What the header says a document is.
enum Class {
    Object(Kind),
    /// A list, with the kind of its items if all are of one.
    List(Option<Kind>),
    Foreign,
}

/// Read one document whose text hashes to `hash`.
pub(super) fn decode(format: Format, text: &str, hash: u64, hasher: &RandomState) -> Decoded {
    let mut decoded = Decoded::default();
    let source = Text::Document(format, text);
    let class = source.read::<Header>().and_then(|header| Ok((classify(&header, None)?, header)));
    match class {
        Err(fault) => decoded.faults.push(fault),
        Ok((Class::Foreign, header)) => {
            tracing::debug!(kind = header.kind, "not a kind the proxy reads; ignored")
        }
        Ok((Class::Object(kind), header)) => decoded.take(object(kind, &source), hash, "", &header),
        Ok((Class::List(kind), _)) => {
            let items = for_each_item(format, text, |i, item| {
                decoded.take_item(&item, hasher.hash_one(&item), &format!("items[{i}]"), kind);
            });
            decoded.faults.extend(items.err());
        }
    }
    decoded
}

impl Decoded {
    fn take_item(&mut self, item: &Json, hash: u64, at: &str, kind: Option<Kind>) {
        let source = Text::Item(item);
        let class = source.read::<Header>().and_then(|header| Ok((classify(&header, kind)?, header)));
        match class {
            Ok((Class::Object(kind), header)) => self.take(object(kind, &source), hash, at, &header),
            Ok((Class::Foreign, _)) => {}
            Ok((Class::List(_), _)) => {
                self.faults
                    .push(Fault { field: Some(at.into()), ..Fault::new("a list within a list is not read") });
            }
            Err(fault) => self.faults.push(fault.within(at)),
        }
    }

    fn take(&mut self, outcome: Result<Outcome, Fault>, hash: u64, at: &str, header: &Header) {
        let fault = match outcome {
            Ok(Outcome::Object(object)) => return self.objects.push((object, hash)),
            // Nobody hands out addresses to manifests, so this service would never come to life.
            Ok(Outcome::Skipped(_, Skip::NoClusterIp)) => {
                let message =
                    "is missing; a manifest has to name the address (or None for a headless service)";
                Fault { field: Some("spec.clusterIP".into()), ..Fault::new(message) }
            }
            Ok(Outcome::Skipped(key, reason)) => {
                return tracing::debug!(object = %key, ?reason, "not for this proxy; ignored");
            }
            Err(fault) => fault,
        };
        self.faults.push(Fault { object: name_of(header), ..fault.within(at) });
    }
}

/// `Service default/web`, as far as the header tells.
fn name_of(header: &Header) -> Option<String> {
    let name = header.metadata.name.as_deref()?;
    let namespace = header.metadata.namespace.as_deref().unwrap_or("default");
    match header.kind.as_str() {
        "Node" | "ServiceCIDR" => Some(format!("{} {name}", header.kind)),
        kind => Some(format!("{kind} {namespace}/{name}").trim_start().into()),
    }
}

/// Other groups may use the same kind names (Knative has a Service), so the group decides first.
fn classify(header: &Header, kind_of_list: Option<Kind>) -> Result<Class, Fault> {
    if header.kind.is_empty() {
        let missing = || Fault { field: Some("kind".into()), ..Fault::new("is missing") };
        return kind_of_list.map(Class::Object).ok_or_else(missing);
    }
    let (group, version) = header.api_version.split_once('/').unwrap_or(("", &header.api_version));
    let (class, versions): (Class, &[&str]) = match (group, header.kind.as_str()) {
        ("", "List") => (Class::List(None), &["v1"]),
        ("", "Service") => (Class::Object(Kind::Service), &["v1"]),
        ("", "ServiceList") => (Class::List(Some(Kind::Service)), &["v1"]),
        ("", "Node") => (Class::Object(Kind::Node), &["v1"]),
        ("", "NodeList") => (Class::List(Some(Kind::Node)), &["v1"]),
        ("discovery.k8s.io", "EndpointSlice") => (Class::Object(Kind::EndpointSlice), &["v1"]),
        ("discovery.k8s.io", "EndpointSliceList") => (Class::List(Some(Kind::EndpointSlice)), &["v1"]),
        ("networking.k8s.io", "ServiceCIDR") => (Class::Object(Kind::ServiceCidr), &["v1", "v1beta1"]),
        ("networking.k8s.io", "ServiceCIDRList") => {
            (Class::List(Some(Kind::ServiceCidr)), &["v1", "v1beta1"])
        }
        _ => return Ok(Class::Foreign),
    };
    if versions.contains(&version) {
        return Ok(class);
    }
    let slash = if group.is_empty() { "" } else { "/" };
    let wanted: Vec<String> = versions.iter().map(|version| format!("{group}{slash}{version}")).collect();
    let message =
        format!("{:?} is not read for a {}; write {}", header.api_version, header.kind, wanted.join(" or "));
    Err(Fault { object: name_of(header), field: Some("apiVersion".into()), ..Fault::new(message) })
}

fn object(kind: Kind, source: &Text<'_>) -> Result<Outcome, Fault> {
    let outcome = match kind {
        Kind::Service => translate::service(source.read::<objects::Service>()?),
        Kind::EndpointSlice => translate::endpoint_slice(source.read::<objects::EndpointSlice>()?),
        Kind::Node => translate::node(source.read::<objects::Node>()?),
        Kind::ServiceCidr => translate::service_cidr(source.read::<objects::ServiceCidr>()?),
    };
    outcome.map_err(Fault::from)
}

impl Text<'_> {
    /// The path to a wrong value is only tracked once there is one: tracking allocates for every key.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        match self {
            Text::Document(Format::Yaml, text) => yaml::read(text),
            Text::Document(Format::Json, text) => serde_json::from_str(text).map_err(|error| {
                let path =
                    serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_str(text));
                Fault::of_json(&error, path.err().map(|error| error.path().to_string()))
            }),
            Text::Item(item) => serde_path_to_error::deserialize(*item).map_err(|error| {
                let path = error.path().to_string();
                Fault::of_json(error.inner(), Some(path))
            }),
        }
    }
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), ..Fault::default() }
    }

    pub(super) fn of_json(error: &serde_json::Error, path: Option<String>) -> Fault {
        let position = Some((error.line() as u64, error.column() as u64)).filter(|(line, _)| *line > 0);
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = error.to_string();
        let message = text.strip_suffix(&place).unwrap_or(&text);
        // A syntax error has no field: the path would only say how far the parser got.
        let field = path.filter(|path| error.is_data() && path != ".");
        Fault { position, field, ..Fault::new(message) }
    }

    /// The same fault, seen from the list the object is an item of.
    fn within(mut self, at: &str) -> Fault {
        if !at.is_empty() {
            self.field = Some(self.field.map_or_else(|| at.to_owned(), |field| format!("{at}.{field}")));
        }
        self
    }
}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Fault {
        Fault { field: Some(invalid.field), ..Fault::new(invalid.message) }
    }
}
