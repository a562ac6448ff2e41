//! What one tenant of a cluster may create: objects that are valid, accepted by an apiserver, and costly.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::objects::{self, Slice};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hostile {
    /// Nothing at all, to compare with.
    Nothing,
    /// One service with so many ports.
    Ports(u16),
    /// One service with many external addresses and many endpoints.
    Addresses { addresses: u32, endpoints: u32 },
    /// So many services, each with an affinity timeout of its own.
    Timeouts(u32),
    /// One service with so many endpoints.
    Endpoints(u32),
    /// The same, and ClientIP affinity comes and goes.
    Affinity(u32),
    /// One service with an annotation of so many bytes.
    Annotation(usize),
}

const NAMESPACE: &str = "tenant";
/// As many as the apiserver lets one slice have.
const SLICE: u32 = 1_000;
const PORTS_ENDPOINTS: u32 = 3;

impl Hostile {
    pub(crate) const ALL: [Hostile; 7] = [
        Hostile::Nothing,
        Hostile::Ports(20_000),
        Hostile::Addresses { addresses: 500, endpoints: 1_000 },
        Hostile::Timeouts(1_000),
        Hostile::Endpoints(50_000),
        Hostile::Affinity(50_000),
        Hostile::Annotation(1_000_000),
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Hostile::Nothing => "nothing".to_owned(),
            Hostile::Ports(count) => format!("{count} ports"),
            Hostile::Addresses { addresses, endpoints } => {
                format!("{addresses} addresses x {endpoints} endpoints")
            }
            Hostile::Timeouts(count) => format!("{count} affinity timeouts"),
            Hostile::Endpoints(count) => format!("{count} endpoints"),
            Hostile::Affinity(count) => format!("{count} endpoints, affinity on and off"),
            Hostile::Annotation(bytes) => format!("{bytes} bytes of annotations"),
        }
    }

    /// Everything there is of it at first.
    pub(crate) fn objects(self) -> Vec<Value> {
        match self {
            Hostile::Nothing => Vec::new(),
            Hostile::Ports(count) => vec![ports_service(count), ports_slice(count, 0)],
            Hostile::Addresses { addresses, endpoints } => {
                let ips = (0..addresses).map(|number| Ipv4Addr::from_bits(0xc633_0000 + number));
                let mut service = objects::service(NAMESPACE, "wide", vip(0));
                service["spec"]["externalIPs"] = ips.map(|ip| ip.to_string()).collect();
                [vec![service], slices(endpoints)].concat()
            }
            Hostile::Timeouts(count) => (0..count)
                .flat_map(|number| [timeout_service(number, 1 + number), timeout_slice(number, 0)])
                .collect(),
            Hostile::Endpoints(count) | Hostile::Affinity(count) => {
                [vec![objects::service(NAMESPACE, "wide", vip(0))], slices(count)].concat()
            }
            Hostile::Annotation(bytes) => vec![annotated(bytes, 0), slice(0, 1, 0)],
        }
    }

    /// The object that changes next: one endpoint is replaced, a timeout or an annotation becomes another one.
    pub(crate) fn change(self, turn: u32) -> Option<Value> {
        Some(match self {
            Hostile::Nothing => return None,
            Hostile::Ports(count) => ports_slice(count, turn),
            Hostile::Addresses { endpoints, .. } | Hostile::Endpoints(endpoints) => {
                let number = turn % endpoints.div_ceil(SLICE);
                slice(number, SLICE.min(endpoints), turn)
            }
            Hostile::Affinity(_) => {
                let mut service = objects::service(NAMESPACE, "wide", vip(0));
                if !turn.is_multiple_of(2) {
                    service["spec"]["sessionAffinity"] = "ClientIP".into();
                }
                service
            }
            // No two services have had the same one so far.
            Hostile::Timeouts(count) if turn.is_multiple_of(2) => {
                timeout_service(turn % count, 1 + count + turn)
            }
            Hostile::Timeouts(count) => timeout_slice(turn % count, turn),
            Hostile::Annotation(bytes) => annotated(bytes, turn),
        })
    }
}

fn vip(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a60_8000 + number).into()
}

/// Addresses that are not in use; the first of a slice is another one each turn.
fn pod(number: u32, turn: u32) -> IpAddr {
    match (number % SLICE, turn) {
        (0, 1..) => Ipv4Addr::from_bits(0x0ae0_0000 + turn).into(),
        _ => Ipv4Addr::from_bits(0x0a80_0010 + number).into(),
    }
}

fn slices(endpoints: u32) -> Vec<Value> {
    (0..endpoints.div_ceil(SLICE)).map(|number| slice(number, SLICE.min(endpoints), 0)).collect()
}

fn slice(number: u32, endpoints: u32, turn: u32) -> Value {
    let pods = (number * SLICE..number * SLICE + endpoints).map(|one| pod(one, turn)).collect();
    let ports = vec![("http".to_owned(), 8080)];
    objects::slice(&Slice { namespace: NAMESPACE, service: "wide", suffix: number, ports, pods })
}

fn port_names(count: u16) -> impl Iterator<Item = (String, u16)> {
    (1..=count).map(|port| (format!("p{port}"), port))
}

fn ports_service(count: u16) -> Value {
    let mut service = objects::service(NAMESPACE, "ports", vip(0));
    service["spec"]["ports"] = port_names(count)
        .map(|(name, port)| json!({"name": name, "protocol": "TCP", "port": port, "targetPort": port}))
        .collect();
    service
}

fn ports_slice(count: u16, turn: u32) -> Value {
    let pods = (0..PORTS_ENDPOINTS).map(|number| pod(number, turn)).collect();
    let ports = port_names(count).collect();
    objects::slice(&Slice { namespace: NAMESPACE, service: "ports", suffix: 0, ports, pods })
}

fn timeout_service(number: u32, seconds: u32) -> Value {
    let mut service = objects::service(NAMESPACE, &format!("pinned-{number}"), vip(number));
    service["spec"]["sessionAffinity"] = "ClientIP".into();
    service["spec"]["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
    service
}

fn timeout_slice(number: u32, turn: u32) -> Value {
    let pods = [2 * number + 1, 2 * number + 2].map(|one| pod(one, 0)).into_iter();
    // As many, one of them another.
    let pods = pods.skip(usize::from(turn > 0)).chain((turn > 0).then(|| pod(0, turn))).collect();
    let (service, ports) = (format!("pinned-{number}"), vec![("http".to_owned(), 8080)]);
    objects::slice(&Slice { namespace: NAMESPACE, service: &service, suffix: 0, ports, pods })
}

fn annotated(bytes: usize, turn: u32) -> Value {
    let mut service = objects::service(NAMESPACE, "wide", vip(0));
    let text = char::from_u32('a' as u32 + turn % 26).unwrap_or('a').to_string().repeat(bytes);
    service["metadata"]["annotations"] = json!({"example.com/notes": text});
    service
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_differs_from_what_is_there() {
        for hostile in Hostile::ALL.into_iter().filter(|one| *one != Hostile::Nothing) {
            let mut objects = hostile.objects();
            for turn in [1, 2, 3] {
                let change = hostile.change(turn).unwrap();
                let there =
                    objects.iter_mut().find(|one| one["metadata"]["name"] == change["metadata"]["name"]);
                let there =
                    there.unwrap_or_else(|| panic!("{}: {} is new", hostile.name(), change["metadata"]));
                assert_ne!(*there, change, "{}", hostile.name());
                assert_eq!(
                    there["endpoints"].as_array().map(Vec::len),
                    change["endpoints"].as_array().map(Vec::len)
                );
                *there = change;
            }
        }
    }

    #[test]
    fn an_apiserver_would_take_each_of_them() {
        for hostile in Hostile::ALL {
            for object in hostile.objects() {
                // etcd refuses more than 1.5 MB.
                let bytes = test_support::protobuf::object(&object).len();
                assert!(bytes < 1_500_000, "{}: {bytes}", hostile.name());
            }
        }
    }
}
