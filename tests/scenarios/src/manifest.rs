//! Kubernetes objects as the text an operator would write, and the folder they lie in.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::IpNet;
use model::{Family, Protocol};
use serde_json::{Value, json};

/// A Service of the namespace `default`, built up step by step; begins as type ClusterIP.
#[derive(Clone, Debug)]
pub struct ServiceManifest {
    name: String,
    spec: Value,
    labels: Value,
    created: String,
    ingress: Vec<Value>,
}

impl ServiceManifest {
    pub fn new(name: &str, cluster_ips: &[IpAddr]) -> ServiceManifest {
        let policy = if cluster_ips.len() > 1 { "RequireDualStack" } else { "SingleStack" };
        let families: Vec<String> = cluster_ips.iter().map(|ip| Family::of(*ip).to_string()).collect();
        ServiceManifest {
            name: name.to_owned(),
            spec: json!({
                "type": "ClusterIP",
                "clusterIP": cluster_ips.first().map_or("None".to_owned(), IpAddr::to_string),
                "clusterIPs": cluster_ips,
                "ipFamilies": families,
                "ipFamilyPolicy": policy,
                "ports": [],
            }),
            labels: json!({}),
            created: "2025-01-01T00:00:00Z".to_owned(),
            ingress: Vec::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Any field of the spec.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> ServiceManifest {
        self.spec[field] = value.into();
        self
    }

    /// `node_port` 0 is none.
    pub fn port(mut self, name: &str, protocol: Protocol, port: u16, node_port: u16) -> ServiceManifest {
        let protocol = protocol.to_string().to_uppercase();
        let mut entry = json!({"name": name, "protocol": protocol, "port": port});
        if node_port != 0 {
            entry["nodePort"] = node_port.into();
        }
        self.spec["ports"].as_array_mut().unwrap().push(entry);
        self
    }

    pub fn external_ips(self, ips: &[IpAddr]) -> ServiceManifest {
        self.with("externalIPs", json!(ips))
    }

    /// An address in the status; the mode is `VIP` or `Proxy`.
    pub fn balancer_ip(mut self, ip: IpAddr, mode: &str) -> ServiceManifest {
        self.ingress.push(json!({"ip": ip, "ipMode": mode}));
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> ServiceManifest {
        self.labels[key] = value.into();
        self
    }

    /// RFC 3339.
    pub fn created(self, at: &str) -> ServiceManifest {
        ServiceManifest { created: at.to_owned(), ..self }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": self.name,
                "namespace": "default",
                "labels": self.labels,
                "creationTimestamp": self.created,
            },
            "spec": self.spec,
            "status": {"loadBalancer": {"ingress": self.ingress}},
        })
    }
}

/// An EndpointSlice of the namespace `default`.
#[derive(Clone, Debug)]
pub struct SliceManifest {
    name: String,
    service: String,
    family: Family,
    ports: Vec<Value>,
    endpoints: Vec<Value>,
}

impl SliceManifest {
    pub fn new(service: &str, suffix: &str, family: Family) -> SliceManifest {
        let name = format!("{service}-{suffix}-{}", family.to_string().to_lowercase());
        SliceManifest { name, service: service.to_owned(), family, ports: Vec::new(), endpoints: Vec::new() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn port(mut self, name: &str, protocol: Protocol, port: u16) -> SliceManifest {
        let protocol = protocol.to_string().to_uppercase();
        self.ports.push(json!({"name": name, "protocol": protocol, "port": port}));
        self
    }

    pub fn endpoint(mut self, endpoint: &EndpointManifest) -> SliceManifest {
        self.endpoints.push(endpoint.0.clone());
        self
    }

    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": self.service},
            },
            "addressType": self.family.to_string(),
            "ports": self.ports,
            "endpoints": self.endpoints,
        })
    }
}

/// One endpoint of a slice; begins as ready.
#[derive(Clone, Debug)]
pub struct EndpointManifest(Value);

impl EndpointManifest {
    pub fn new(ip: IpAddr, node: &str) -> EndpointManifest {
        EndpointManifest(json!({"addresses": [ip], "nodeName": node, "conditions": {"ready": true}}))
    }

    pub fn conditions(mut self, ready: bool, serving: bool, terminating: bool) -> EndpointManifest {
        self.0["conditions"] = json!({"ready": ready, "serving": serving, "terminating": terminating});
        self
    }

    /// A slice need not say on which node.
    pub fn nowhere(mut self) -> EndpointManifest {
        self.0["nodeName"] = Value::Null;
        self
    }

    /// `kind` is `forZones` or `forNodes`.
    pub fn hint(mut self, kind: &str, name: &str) -> EndpointManifest {
        self.0["hints"][kind] = json!([{"name": name}]);
        self
    }
}

pub fn node(name: &str, zone: &str, addresses: &[IpAddr]) -> Value {
    let addresses: Vec<Value> =
        addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"addresses": addresses},
    })
}

pub fn service_cidr(name: &str, cidrs: &[IpNet]) -> Value {
    let cidrs: Vec<String> = cidrs.iter().map(IpNet::to_string).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": name},
        "spec": {"cidrs": cidrs},
    })
}

/// A temporary folder of manifests, removed with this value. A file appears or changes as a whole.
#[derive(Debug)]
pub struct ManifestFolder {
    path: PathBuf,
}

impl ManifestFolder {
    pub fn create() -> ManifestFolder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pointsman-{}-{number}", std::process::id()));
        // What an earlier process of the same number left behind when it was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        ManifestFolder { path }
    }

    /// The lock of iptables for those who work in the agent's namespace; hidden from the source of manifests.
    pub fn lock(&self) -> PathBuf {
        crate::node_agent::lock_beside(&self.path().join("log"))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn put(&self, name: &str, object: &Value) {
        self.put_text(&format!("{name}.json"), &format!("{object:#}"));
    }

    /// Write a file under its full name, by renaming a finished one.
    pub fn put_text(&self, file: &str, text: &str) {
        // The source passes over names that begin with a dot.
        let unfinished = self.path.join(format!(".{file}.new"));
        fs::write(&unfinished, text).unwrap();
        fs::rename(&unfinished, self.path.join(file)).unwrap();
    }

    pub fn put_service(&self, service: &ServiceManifest) {
        self.put(&format!("service-{}", service.name()), &service.to_json());
    }

    pub fn put_slice(&self, slice: &SliceManifest) {
        self.put(&format!("slice-{}", slice.name()), &slice.to_json());
    }

    /// Remove an object by the name it was [`put`](ManifestFolder::put) under.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path.join(format!("{name}.json"))).unwrap();
    }
}

impl Drop for ManifestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
