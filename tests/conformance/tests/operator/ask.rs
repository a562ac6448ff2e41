//! HTTP as a probe or a scraper speaks it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use sandbox::Namespace;
use test_support::{SOON, patient};

pub(crate) const PROBES: u16 = 10256;
pub(crate) const PAGES: u16 = 10249;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The content type, or nothing.
    pub(crate) kind: String,
    pub(crate) body: String,
}

/// `GET path` at a port of the node's loopback; `None` if nothing answers.
pub(crate) fn get(node: &Namespace, port: u16, path: &str, accept: &str) -> Option<Answer> {
    node.try_run(|| exchange(port, path, accept)).ok()?
}

fn exchange(port: u16, path: &str, accept: &str) -> Option<Answer> {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&server, patient(SOON)).ok()?;
    stream.set_read_timeout(Some(patient(SOON))).ok()?;
    let accept = if accept.is_empty() { String::new() } else { format!("Accept: {accept}\r\n") };
    write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n{accept}\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let kind = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    });
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, kind: kind.unwrap_or_default(), body: body.to_owned() })
}
