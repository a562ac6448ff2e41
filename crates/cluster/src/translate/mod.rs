//! Kubernetes object → domain value. Pure; one object at a time.
//!
//! Here live the defaults, the skips and the checks of single objects. What several objects mean together
//! is for [`crate::ClusterState`] and the model to say.
//!
//! An entry of a list that nothing can be made of is left out and noted in [`Flaws`]; the rest of the object is used. Only
//! an object without which nothing can be said (no name, no usable address, an unknown policy) is [`Invalid`] as a whole.

mod endpoint_slice;
mod flaws;
mod node;
mod parse;
mod service;

use std::borrow::Cow;
use std::fmt;

use crate::objects::pairs::{HEADLESS, OTHER_PROXY};
use crate::objects::{Metadata, shown};
use crate::{Kind, Object, ObjectChange, ObjectKey, Value};

pub use endpoint_slice::endpoint_slice;
pub use flaws::Flaws;
pub use node::{node, service_cidr};
pub use service::service;

/// What came of an object that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Translated {
    pub outcome: Outcome,
    /// What of it is not in use.
    pub flaws: Flaws,
}

/// A translated object, or the reason why it is none of the proxy's business.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Object(Object),
    Skipped(ObjectKey, Skip),
}

impl Outcome {
    pub fn key(&self) -> &ObjectKey {
        match self {
            Outcome::Object(object) => &object.key,
            Outcome::Skipped(key, _) => key,
        }
    }

    /// A skipped object may have been proxied in its last version, so it must go.
    pub fn into_change(self) -> ObjectChange {
        match self {
            Outcome::Object(object) => ObjectChange::Apply(object),
            Outcome::Skipped(key, _) => ObjectChange::Delete(key),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    Headless,
    ExternalName,
    /// A label hands the object to another proxy.
    OtherProxy,
    /// No cluster IP has been allocated (yet).
    NoClusterIp,
    /// An EndpointSlice of host names.
    Fqdn,
    /// An EndpointSlice without the label that names its service.
    NoService,
}

/// A value the proxy cannot work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where, like `spec.ports[1].port`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl Invalid {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Invalid {
        Invalid { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for Invalid {}

/// The key of an object; a namespaced one without a namespace lives in `default`, as kubectl has it.
pub(crate) fn key(kind: Kind, metadata: &Metadata) -> Result<ObjectKey, Invalid> {
    if metadata.name.is_empty() {
        return Err(Invalid::new("metadata.name", "is missing"));
    }
    for (field, text) in [("metadata.name", &metadata.name), ("metadata.namespace", &metadata.namespace)] {
        if text.contains(&b'/') {
            let text = parse::quoted(&shown(text));
            return Err(Invalid::new(field, format!("{text} must not contain '/'")));
        }
    }
    Ok(ObjectKey::new(kind, &namespace(metadata), &shown(&metadata.name)))
}

fn namespace(metadata: &Metadata) -> Cow<'_, str> {
    if metadata.namespace.is_empty() { "default".into() } else { shown(&metadata.namespace) }
}

/// Labels by which a Service or EndpointSlice is not ours. Their presence counts, whatever the value.
fn skipped_by_label(metadata: &Metadata) -> Option<Skip> {
    if metadata.labels.contains(OTHER_PROXY) {
        return Some(Skip::OtherProxy);
    }
    metadata.labels.contains(HEADLESS).then_some(Skip::Headless)
}

fn skipped(key: ObjectKey, why: Skip) -> Translated {
    Translated { outcome: Outcome::Skipped(key, why), flaws: Flaws::default() }
}

fn object(key: ObjectKey, value: Value, flaws: Flaws) -> Translated {
    Translated { outcome: Outcome::Object(Object { key, value }), flaws }
}
