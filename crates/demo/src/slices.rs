//! EndpointSlices of the demo's services, as YAML.

use std::fmt::Write as _;

use super::cast::{DNS_PORT, HTTP_PORT, Member};

/// A service whose pods are written by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backed {
    Web,
    WebLocal,
    Cart,
    Dns,
}

#[derive(Clone, Copy)]
enum AddressType {
    V4,
    V6,
}

impl Backed {
    pub(super) const ALL: [Backed; 4] = [Backed::Web, Backed::WebLocal, Backed::Cart, Backed::Dns];

    pub(super) fn name(self) -> &'static str {
        match self {
            Backed::Web => "web",
            Backed::WebLocal => "web-local",
            Backed::Cart => "cart",
            Backed::Dns => "dns",
        }
    }

    fn port(self) -> String {
        match self {
            Backed::Dns => format!("{{name: dns, protocol: UDP, port: {DNS_PORT}}}"),
            _ => format!("{{name: http, protocol: TCP, port: {HTTP_PORT}}}"),
        }
    }

    /// Everything that says which pods are behind the service.
    pub(super) fn manifest(self, members: &[Member]) -> String {
        match self {
            Backed::Web => self.slice(AddressType::V4, members) + &self.slice(AddressType::V6, members),
            _ => self.slice(AddressType::V4, members),
        }
    }

    fn slice(self, address_type: AddressType, members: &[Member]) -> String {
        let (service, port) = (self.name(), self.port());
        let (suffix, family) = match address_type {
            AddressType::V4 => ("v4", "IPv4"),
            AddressType::V6 => ("v6", "IPv6"),
        };
        let mut text = format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {service}-{suffix}\n  \
             namespace: demo\n  labels: {{kubernetes.io/service-name: {service}}}\naddressType: {family}\n\
             ports:\n- {port}\nendpoints:\n"
        );
        for member in members {
            let address = match address_type {
                AddressType::V4 => member.v4.to_string(),
                AddressType::V6 => format!("\"{}\"", member.v6),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "- addresses: [{address}]  # pod-{}\n  conditions: {{ready: true}}\n  nodeName: {}",
                member.name, member.node
            );
        }
        text
    }
}
