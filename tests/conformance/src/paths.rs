//! Where an object lives in the API.

use serde_json::Value;

pub const SERVICES: &str = "/api/v1/namespaces/default/services";
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
pub const NODES: &str = "/api/v1/nodes";
pub const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// The collection that an object of the kinds we use belongs to.
pub fn collection(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").expect("an object has an apiVersion");
    let kind = text("/kind").expect("an object has a kind");
    let group = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let resource = format!("{}s", kind.to_lowercase());
    match text("/metadata/namespace") {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{resource}"),
        None => format!("{group}/{resource}"),
    }
}

/// The object itself.
pub fn object(object: &Value) -> String {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).expect("an object has a name");
    format!("{}/{name}", collection(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::{ServiceManifest, SliceManifest, manifest};

    #[test]
    fn paths_of_the_kinds_we_use() {
        let service = ServiceManifest::new("web", &[]).to_json();
        assert_eq!(object(&service), format!("{SERVICES}/web"));
        let slice = SliceManifest::new("web", "1", model::Family::V4).to_json();
        assert_eq!(collection(&slice), SLICES);
        assert_eq!(object(&manifest::node("n", "z", &[])), format!("{NODES}/n"));
        assert_eq!(collection(&manifest::service_cidr("c", &[])), SERVICE_CIDRS);
    }
}
