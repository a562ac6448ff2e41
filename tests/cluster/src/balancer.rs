//! What gives Services of type LoadBalancer an address, as a cloud does.
//!
//! The address is routed to one node, another one for each address, and stays there as long as that node may have it: so
//! packets reach a node as the client sent them, and connections stay where they are. With externalTrafficPolicy Local
//! it is spread over all nodes whose health check says so, unless clients are to be kept at one.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use conformance_support::{Api, ApiError};
use kernel::netns::Namespace;
use serde_json::{Value, json};
use test_support::watch_for;

use crate::address;
use crate::run;

/// As clouds do it, so that a Service stays until its routes are gone.
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const PAUSE: Duration = Duration::from_millis(300);
const HEALTH_CHECK: Duration = Duration::from_millis(500);
const AFTER_A_NO: Duration = Duration::from_secs(4);
const AFTER_SILENCE: Duration = Duration::from_secs(20);

/// It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Balancer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Balancer {
    /// Works from `outside`, where its clients are.
    pub(crate) fn start(api: Api, outside: &Namespace) -> Result<Balancer, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            let mut state = State {
                api,
                addresses: BTreeMap::new(),
                routes: BTreeMap::new(),
                given: 0,
                checks: Checks::default(),
            };
            while !watch_for(PAUSE, || stopped.load(Ordering::Relaxed)) {
                // The apiserver may be away for a while; the routes stay as they are.
                let _ = state.step();
            }
        };
        let thread = outside.spawn("balancer", work).map_err(|e| e.to_string())?;
        Ok(Balancer { stop, thread: Some(thread) })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct State {
    api: Api,
    /// By the uid of a Service.
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// What was routed last: address to nodes.
    routes: BTreeMap<IpAddr, Vec<IpAddr>>,
    given: u16,
    checks: Checks,
}

impl State {
    fn step(&mut self) -> Result<(), ApiError> {
        let nodes = node_addresses(&self.api.list("/api/v1/nodes")?);
        let mut wanted = BTreeMap::new();
        for service in self.api.list("/api/v1/services")? {
            for address in self.serve(&service)? {
                let hops = hops(&service, address, &nodes, &mut self.checks);
                let spec = &service["spec"];
                let is_spread =
                    spec["externalTrafficPolicy"] == "Local" && spec["sessionAffinity"] != "ClientIP";
                let kept =
                    self.routes.get(&address).and_then(|old| old.iter().find(|hop| hops.contains(hop)));
                let one = kept.or_else(|| hops.get(wanted.len() % hops.len().max(1))).copied();
                let chosen = if is_spread { hops } else { Vec::from_iter(one) };
                if !chosen.is_empty() {
                    wanted.insert(address, chosen);
                }
            }
        }
        let gone = self.routes.keys().filter(|address| !wanted.contains_key(address));
        gone.for_each(|address| drop(ip(*address, &["route", "del", &address.to_string()])));
        for (address, hops) in &wanted {
            if self.routes.get(address) != Some(hops) {
                route(*address, hops);
            }
        }
        self.routes = wanted;
        Ok(())
    }

    /// The addresses it is to have now, in its status too.
    fn serve(&mut self, service: &Value) -> Result<Vec<IpAddr>, ApiError> {
        let (meta, spec) = (&service["metadata"], &service["spec"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let path =
            format!("/api/v1/namespaces/{}/services/{}", text(&meta["namespace"]), text(&meta["name"]));
        let mut finalizers: Vec<Value> = meta["finalizers"].as_array().cloned().unwrap_or_default();
        let ours = finalizers.iter().any(|each| each == FINALIZER);
        let is_wanted = spec["type"] == "LoadBalancer"
            && meta["deletionTimestamp"].is_null()
            && spec["loadBalancerClass"].is_null();
        if !is_wanted {
            if ours {
                self.addresses.remove(&text(&meta["uid"]));
                self.api.patch_status(&path, &json!({"status": {"loadBalancer": null}}))?;
                finalizers.retain(|each| each != FINALIZER);
                self.api.patch(&path, &json!({"metadata": {"finalizers": finalizers}}))?;
            }
            return Ok(Vec::new());
        }
        if !ours {
            finalizers.push(json!(FINALIZER));
            self.api.patch(&path, &json!({"metadata": {"finalizers": finalizers}}))?;
        }
        let families: Vec<bool> =
            spec["ipFamilies"].as_array().into_iter().flatten().map(|family| family == "IPv6").collect();
        let given = &mut self.given;
        let has = self.addresses.entry(text(&meta["uid"])).or_insert_with(|| {
            *given += 1;
            let (v4, v6) = address::balancer(*given);
            families.iter().map(|is_v6| if *is_v6 { IpAddr::from(v6) } else { v4.into() }).collect()
        });
        // A Service may have become dual-stack, or the opposite.
        let families_of = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::is_ipv6).collect::<Vec<bool>>();
        if families_of(has) != families {
            *given += 1;
            let (v4, v6) = address::balancer(*given);
            *has = families.iter().map(|is_v6| if *is_v6 { IpAddr::from(v6) } else { v4.into() }).collect();
        }
        let has = has.clone();
        let ingress: Vec<Value> = has.iter().map(|address| json!({"ip": address})).collect();
        let shown = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
        if !shown.map(|each| &each["ip"]).eq(ingress.iter().map(|each| &each["ip"])) {
            self.api.patch_status(&path, &json!({"status": {"loadBalancer": {"ingress": ingress}}}))?;
        }
        Ok(has)
    }
}

fn node_addresses(nodes: &[Value]) -> Vec<IpAddr> {
    let lists = nodes.iter().filter_map(|node| node["status"]["addresses"].as_array());
    let internal = lists.flatten().filter(|each| each["type"] == "InternalIP");
    internal.filter_map(|each| each["address"].as_str()?.parse().ok()).collect()
}

/// The nodes that may have the address.
fn hops(service: &Value, address: IpAddr, nodes: &[IpAddr], checks: &mut Checks) -> Vec<IpAddr> {
    let spec = &service["spec"];
    let of_family = nodes.iter().copied().filter(|node| node.is_ipv6() == address.is_ipv6());
    let health = spec["healthCheckNodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
    let is_local = spec["externalTrafficPolicy"] == "Local";
    let mut may = |node: &IpAddr| !is_local || health.is_some_and(|port| checks.is_healthy(*node, port));
    of_family.filter(|node| may(node)).collect()
}

/// When each health check last said yes. A node is given up when that is too long ago: a proxy that is replaced does not
/// listen for a moment, or does not know its endpoints yet, and balancers do not take a node out for one check.
#[derive(Default)]
struct Checks(BTreeMap<(IpAddr, u16), Instant>);

impl Checks {
    fn is_healthy(&mut self, node: IpAddr, port: u16) -> bool {
        let patience = match ask_health(node, port) {
            Ok(true) => {
                self.0.insert((node, port), Instant::now());
                return true;
            }
            Ok(false) => AFTER_A_NO,
            Err(_) => AFTER_SILENCE,
        };
        self.0.get(&(node, port)).is_some_and(|last| last.elapsed() < patience)
    }
}

fn ask_health(node: IpAddr, port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(node, port), HEALTH_CHECK)?;
    stream.set_read_timeout(Some(HEALTH_CHECK))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    Ok(answer.ends_with(b" 200"))
}

fn route(to: IpAddr, hops: &[IpAddr]) {
    let outside = if to.is_ipv6() { IpAddr::from(address::OUTSIDE.1) } else { address::OUTSIDE.0.into() };
    let mut words = ["route", "replace"].map(str::to_owned).to_vec();
    words.extend([to.to_string(), "src".to_owned(), outside.to_string()]);
    words.extend(hops.iter().flat_map(|hop| ["nexthop".to_owned(), "via".to_owned(), hop.to_string()]));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let _ = ip(to, &words);
}

fn ip(about: IpAddr, words: &[&str]) -> Result<String, String> {
    run::output(Command::new("ip").arg(if about.is_ipv6() { "-6" } else { "-4" }).args(words))
}
