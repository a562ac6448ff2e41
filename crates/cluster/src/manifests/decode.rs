//! The text of one document → the objects in it. Pure.

use std::hash::{BuildHasher, RandomState};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::list::for_each_item;
use super::yaml;
use crate::fault_path::path_to_fault;
use crate::objects::{self, Header};
use crate::translate::{self, Flaws, Invalid, Outcome, Skip, Translated};
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
    /// Entries of the object are not used, but the rest of it is.
    pub(super) leaves_object: bool,
}

/// Takes an object and the hash of the content it was made from.
pub(super) type TakeObject<'a> = &'a mut dyn FnMut(Object, u64);

/// Collects what one document yields.
struct Yield<'a> {
    take_object: TakeObject<'a>,
    faults: Vec<Fault>,
}

/// What the header says a document is.
enum Class {
    Object(Kind),
    /// A list, with the kind of its items if all are of one.
    List(Option<Kind>),
    Foreign,
}

/// Read one document whose text hashes to `hash`; returns what is wrong with it.
pub(super) fn decode(
    format: Format,
    text: &str,
    hash: u64,
    hasher: &RandomState,
    take_object: TakeObject<'_>,
) -> Vec<Fault> {
    let mut result = Yield { take_object, faults: Vec::new() };
    let source = Text::Document(format, text);
    match source.header().and_then(|header| classify(&header, None)) {
        Ok(Class::Object(kind)) => result.object(kind, hash, "", &source),
        Ok(Class::List(kind)) => {
            let items = for_each_item(format, text, |i, item| {
                result.item(&item, hasher.hash_one(&item), &format!("items[{i}]"), kind);
            });
            result.faults.extend(items.err());
        }
        Ok(Class::Foreign) => tracing::debug!("Ignoring a document of a kind that the proxy does not read"),
        Err(fault) => result.fault(fault, "", &source, None),
    }
    result.faults
}

impl Yield<'_> {
    fn item(&mut self, item: &Json, hash: u64, at: &str, kind: Option<Kind>) {
        let source = Text::Item(item);
        match source.header().and_then(|header| classify(&header, kind)) {
            Ok(Class::Object(kind)) => self.object(kind, hash, at, &source),
            Ok(Class::List(_)) => {
                self.fault(Fault::new("a list within a list is not read"), at, &source, None)
            }
            Ok(Class::Foreign) => {}
            Err(fault) => self.fault(fault, at, &source, kind),
        }
    }

    fn object(&mut self, kind: Kind, hash: u64, at: &str, source: &Text<'_>) {
        let outcome = object(kind, source).map(|Translated { outcome, flaws }| {
            if !flaws.is_empty() {
                self.fault((&flaws).into(), at, source, Some(kind));
            }
            outcome
        });
        match outcome {
            Ok(Outcome::Object(object)) => (self.take_object)(object, hash),
            // Addresses are not allocated for manifests, so this service would never come to life.
            Ok(Outcome::Skipped(_, Skip::NoClusterIp)) => {
                let message =
                    "is missing; a manifest has to name the address (or None for a headless service)";
                self.fault(Invalid::new("spec.clusterIP", message).into(), at, source, Some(kind));
            }
            Ok(Outcome::Skipped(key, why)) => {
                tracing::debug!(object = %key, ?why, "Ignoring an object that is not for this proxy")
            }
            Err(fault) => self.fault(fault, at, source, Some(kind)),
        }
    }

    /// Note a fault, with the name of the object it is in and, in a list, its place there.
    fn fault(&mut self, mut fault: Fault, at: &str, source: &Text<'_>, kind: Option<Kind>) {
        if !at.is_empty() {
            fault.field = Some(fault.field.map_or_else(|| at.to_owned(), |field| format!("{at}.{field}")));
        }
        fault.object = source.read::<Header>().ok().as_ref().and_then(|header| name_of(header, kind));
        self.faults.push(fault);
    }
}

/// `Service default/web`, as far as the header tells, or the list in which it is.
fn name_of(header: &Header, kind_of_list: Option<Kind>) -> Option<String> {
    let name = header.metadata.name.as_deref()?;
    let namespace = header.metadata.namespace.as_deref().unwrap_or("default");
    let in_list = kind_of_list.map(|kind| kind.to_string()).unwrap_or_default();
    match if header.kind.is_empty() { &*in_list } else { &*header.kind } {
        kind @ ("Node" | "ServiceCIDR") => Some(format!("{kind} {name}")),
        kind => Some(format!("{kind} {namespace}/{name}").trim_start().into()),
    }
}

/// Other groups may use the same kind names (Knative has a Service), so the group decides first.
fn classify(header: &Header, kind_of_list: Option<Kind>) -> Result<Class, Fault> {
    if header.kind.is_empty() {
        return kind_of_list.map(Class::Object).ok_or_else(|| Invalid::new("kind", "is missing").into());
    }
    if header.api_version.is_empty()
        && let Some(wanted) = api_version(&header.kind)
    {
        return Err(Invalid::new("apiVersion", format!("is missing; write {wanted}")).into());
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
    let wanted = wanted.join(" or ");
    let message = format!("{:?} is not read; write {wanted} for kind {}", header.api_version, header.kind);
    Err(Invalid::new("apiVersion", message).into())
}

/// What is to be written for a kind that is read, or a list of it.
pub fn api_version(kind: &str) -> Option<&'static str> {
    match kind.strip_suffix("List").unwrap_or(kind) {
        "" | "Service" | "Node" => Some("v1"),
        "EndpointSlice" => Some("discovery.k8s.io/v1"),
        "ServiceCIDR" => Some("networking.k8s.io/v1"),
        _ => None,
    }
}

fn object(kind: Kind, source: &Text<'_>) -> Result<Translated, Fault> {
    let translated = match kind {
        Kind::Service => translate::service(source.read::<objects::Service>()?),
        Kind::EndpointSlice => translate::endpoint_slice(source.read::<objects::EndpointSlice>()?),
        Kind::Node => translate::node(source.read::<objects::Node>()?),
        Kind::ServiceCidr => translate::service_cidr(source.read::<objects::ServiceCidr>()?),
    };
    translated.map_err(Fault::from)
}

impl Text<'_> {
    /// What the document says it is. May lack the name, where the kind was had without parsing.
    fn header(&self) -> Result<Header, Fault> {
        let glimpse = match self {
            Text::Document(Format::Yaml, text) => yaml::glimpse(text),
            _ => None,
        };
        glimpse.map_or_else(|| self.read(), Ok)
    }

    /// The path to a wrong value is only tracked once there is one: tracking allocates for every key.
    fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        match self {
            Text::Document(Format::Yaml, text) => yaml::read(text),
            Text::Document(Format::Json, text) => serde_json::from_str(text).map_err(|error| {
                Fault::of_json(&error, path_to_fault::<T>(&mut serde_json::Deserializer::from_str(text)))
            }),
            Text::Item(item) => {
                T::deserialize(*item).map_err(|error| Fault::of_json(&error, path_to_fault::<T>(*item)))
            }
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
}

impl From<&Flaws> for Fault {
    fn from(flaws: &Flaws) -> Fault {
        let field = flaws.examples.first().map(|first| first.field.clone());
        let text = flaws.to_string();
        let start = field.as_ref().map_or(0, |field| field.len() + ": ".len());
        Fault { field, leaves_object: true, ..Fault::new(text.get(start..).unwrap_or(&text)) }
    }
}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Fault {
        Fault { field: Some(invalid.field), ..Fault::new(invalid.message) }
    }
}
