//! Just enough of an apiserver for one agent: streaming lists that go on as watches, in protobuf.
//!
//! A real one would take part of the machine that is measured, and add its own time to every change.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel::netns::Namespace;
use serde_json::{Value, json};
use test_support::protobuf;

use crate::Failure;

pub(crate) const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);
const KINDS: [&str; 4] = ["services", "endpointslices", "nodes", "servicecidrs"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Create it or replace it.
    Put,
    Delete,
}

/// It lives as long as the process.
#[derive(Clone, Default)]
pub(crate) struct Apiserver {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    version: u64,
    resources: BTreeMap<&'static str, Resource>,
}

#[derive(Default)]
struct Resource {
    objects: BTreeMap<String, Value>,
    watchers: Vec<Sender<Arc<[u8]>>>,
}

impl Apiserver {
    /// Listen on the loopback of a namespace.
    pub(crate) fn start(namespace: &Namespace) -> Result<Apiserver, Failure> {
        let listener = namespace.try_run(|| TcpListener::bind(ADDRESS))??;
        let server = Apiserver::default();
        let own = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = own.clone();
                // The agent ends before the measurement does.
                std::thread::spawn(move || drop(server.serve(stream)));
            }
        });
        Ok(server)
    }

    /// Change objects and notify the watches, in this order. They are encoded before any watch has to wait.
    pub(crate) fn apply(&self, verb: Verb, objects: &[Value]) -> Result<(), Failure> {
        for object in objects {
            let (kind, name) = (resource_of(object)?, name_of(object));
            let mut object = object.clone();
            let mut state = self.state();
            state.version += 1;
            object["metadata"]["resourceVersion"] = state.version.to_string().into();
            let resource = state.resources.entry(kind).or_default();
            let (before, what) = match verb {
                Verb::Put => (resource.objects.insert(name, object.clone()), "MODIFIED"),
                Verb::Delete => (resource.objects.remove(&name), "DELETED"),
            };
            let what = if before.is_none() { "ADDED" } else { what };
            let event: Arc<[u8]> = protobuf::event(what, &object).into();
            resource.watchers.retain(|watcher| watcher.send(event.clone()).is_ok());
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some((target, body)) = read_head(&mut reader)? {
            io::copy(&mut reader.by_ref().take(body), &mut io::sink())?;
            let path = target.split('?').next().unwrap_or_default();
            let kind = KINDS.into_iter().find(|kind| path.ends_with(kind));
            match kind.filter(|_| target.contains("sendInitialEvents=true")) {
                Some(kind) => return self.stream(kind, &mut stream),
                // Events of the agent; nothing else is asked of us.
                None => stream.write_all(
                    b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
                )?,
            }
        }
        Ok(())
    }

    fn stream(&self, kind: &'static str, stream: &mut TcpStream) -> io::Result<()> {
        let (first, news) = self.subscribe(kind);
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: ";
        stream.write_all(format!("{head}{}\r\n\r\n", protobuf::CONTENT_TYPE).as_bytes())?;
        write_chunk(stream, &first)?;
        news.into_iter().try_for_each(|event| write_chunk(stream, &event))
    }

    /// What there is, with the mark that ends it, and what comes.
    fn subscribe(&self, kind: &'static str) -> (Vec<u8>, Receiver<Arc<[u8]>>) {
        let (sender, receiver) = channel();
        let mut state = self.state();
        let version = state.version.max(1).to_string();
        let resource = state.resources.entry(kind).or_default();
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        let mark = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata});
        let mut first: Vec<u8> =
            resource.objects.values().flat_map(|object| protobuf::event("ADDED", object)).collect();
        first.extend(protobuf::event("BOOKMARK", &mark));
        resource.watchers.push(sender);
        (first, receiver)
    }
}

/// What is asked for, and how long the body is; `None` where the client closed the connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<(String, u64)>> {
    let (mut target, mut body) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_lowercase();
        match (&mut target, line.strip_prefix("content-length: ")) {
            (Some(target), _) if line.is_empty() => return Ok(Some((std::mem::take(target), body))),
            (Some(_), Some(length)) => body = length.parse().unwrap_or_default(),
            (Some(_), None) => {}
            (none, _) => *none = Some(line_target(&line)),
        }
    }
}

/// The header is in lower case by now; only the names of parameters matter.
fn line_target(line: &str) -> String {
    line.split(' ').nth(1).unwrap_or_default().replace("sendinitialevents", "sendInitialEvents")
}

fn write_chunk(stream: &mut TcpStream, chunk: &[u8]) -> io::Result<()> {
    write!(stream, "{:x}\r\n", chunk.len())?;
    stream.write_all(chunk)?;
    stream.write_all(b"\r\n")
}

fn resource_of(object: &Value) -> Result<&'static str, Failure> {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let found = KINDS.into_iter().find(|name| name.strip_suffix('s') == Some(&kind));
    found.ok_or_else(|| format!("nobody watches objects of kind {kind:?}").into())
}

fn name_of(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}
