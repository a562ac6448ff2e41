//! One question to the agent over HTTP, and every way in which it may go without an answer, as a line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use config::version;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use serde_json::Value;

use crate::paths::{TRUNCATED_HEADER, VERSION_HEADER};
use crate::{complain, harmless};

const CONNECTING: Duration = Duration::from_secs(5);
/// The agent itself gives up before.
const ANSWERING: Duration = Duration::from_secs(60);
const LONGEST_ANSWER: u64 = 256 << 20;
const LONGEST_LINE: u64 = 64 << 10;

const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'%').add(b'&').add(b'+').add(b'#').add(b'"').add(b'<').add(b'>');

/// What came back.
pub(super) struct Reply {
    pub(super) code: u16,
    head: String,
    pub(super) body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// The document at a path, asked with these parameters.
pub(super) fn ask(agent: SocketAddr, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
    let reply = get(agent, &with_parameters(path, parameters))?;
    let other = recognise(agent, &reply)?;
    let document = read(agent, &reply).map_err(|problem| with_version(problem, other.as_deref()))?;
    tell_once(other.as_deref());
    Ok(document)
}

/// Documents that come one by one, a line each, for about as long as `lasts`. Each is handed over as it comes, until
/// `each` says that it was the last.
pub(super) fn follow(
    agent: SocketAddr,
    path: &str,
    parameters: &[(&str, &str)],
    lasts: Duration,
    mut each: impl FnMut(Value) -> ControlFlow<()>,
) -> Result<(), String> {
    let asked = request(agent, &with_parameters(path, parameters), lasts + ANSWERING);
    let (mut reply, mut stream) = asked.map_err(|error| unheard(agent, &error))?;
    let mut other = recognise(agent, &reply)?;
    if reply.code != 200 {
        let rest = stream.take(LONGEST_ANSWER).read_to_string(&mut reply.body);
        let refused =
            rest.map_err(|error| unheard(agent, &error)).and_then(|_| read(agent, &reply).map(drop));
        return refused.map_err(|problem| with_version(problem, other.as_deref()));
    }
    loop {
        let document = next_line(agent, &mut stream);
        let document = document.map_err(|problem| with_version(problem, other.as_deref()))?;
        tell_once(other.take().as_deref());
        if each(document).is_break() {
            return Ok(());
        }
    }
}

fn next_line(agent: SocketAddr, stream: &mut impl BufRead) -> Result<Value, String> {
    let mut line = String::new();
    let length = stream.take(LONGEST_LINE).read_line(&mut line);
    if length.map_err(|error| unheard(agent, &error))? == 0 {
        return Err(format!("the agent at {agent} ended early"));
    }
    serde_json::from_str(&line)
        .map_err(|error| format!("the agent at {agent} gave an answer that cannot be read: {error}"))
}

/// Whether an agent answers; another version is worth a word.
fn recognise(agent: SocketAddr, reply: &Reply) -> Result<Option<String>, String> {
    let Some(theirs) = reply.header(VERSION_HEADER) else { return Err(stranger(agent, reply)) };
    let is_other = theirs != version::FULL;
    Ok(is_other.then(|| format!("the agent at {agent} is {theirs}, this program is {}", version::FULL)))
}

/// A command may ask many times; its user is told once.
fn tell_once(other: Option<&str>) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if let Some(other) = other
        && !IS_TOLD.swap(true, Ordering::Relaxed)
    {
        complain(other);
    }
}

/// In one line: the version may be the cause.
fn with_version(problem: String, other: Option<&str>) -> String {
    match other {
        Some(other) => format!("{problem} ({other})"),
        None => problem,
    }
}

fn read(agent: SocketAddr, reply: &Reply) -> Result<Value, String> {
    let document: Value = serde_json::from_str(&reply.body)
        .map_err(|error| format!("the agent at {agent} gave an answer that cannot be read: {error}"))?;
    match (reply.code, document["error"].as_str()) {
        (200, _) => Ok(document),
        (_, Some(problem)) => Err(harmless(problem, false).into_owned()),
        (code, None) => Err(format!("the agent at {agent} answered with code {code}")),
    }
}

/// The text of an answer as it came, and whether the agent left something out.
pub(super) fn text(
    agent: SocketAddr,
    path: &str,
    parameters: &[(&str, &str)],
) -> Result<(String, bool), String> {
    let reply = page(agent, &with_parameters(path, parameters))?;
    let is_truncated = reply.header(TRUNCATED_HEADER).is_some();
    Ok((reply.body, is_truncated))
}

/// A page, if it is there.
pub(super) fn page(agent: SocketAddr, path: &str) -> Result<Reply, String> {
    let reply = get(agent, path)?;
    match reply.code {
        200 => Ok(reply),
        code => Err(format!("the agent at {agent} answered with code {code}")),
    }
}

fn with_parameters(path: &str, parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ESCAPED)))
        .collect();
    format!("{path}?{}", pairs.join("&"))
}

/// Something else answers, or an agent that does not know the question.
fn stranger(agent: SocketAddr, reply: &Reply) -> String {
    if [401, 403].contains(&reply.code) {
        return format!("no permission: {agent} answered with code {}", reply.code);
    }
    let metrics = get(agent, "/metrics").map(|reply| reply.body).unwrap_or_default();
    let line = metrics.lines().find(|line| line.starts_with("kubernetes_build_info{"));
    let theirs = line.and_then(|line| line.split("git_version=\"").nth(1)?.split('"').next());
    match theirs {
        Some(theirs) => format!(
            "the kube-proxy at {agent} is {theirs} and does not know this question; this program is {}",
            version::FULL
        ),
        None => format!("what answers at {agent} is not a kube-proxy that can be asked; see --agent"),
    }
}

fn get(agent: SocketAddr, path: &str) -> Result<Reply, String> {
    exchange(agent, path).map_err(|error| unheard(agent, &error))
}

fn unheard(agent: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "no agent answers at {agent}: connection refused. Is kube-proxy running on this node? See --agent and \
             --metrics-bind-address"
        ),
        io::ErrorKind::PermissionDenied => format!("no permission to connect to {agent}: {error}"),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("no answer from {agent} in time; the agent may be busy writing rules")
        }
        _ => format!("cannot ask the agent at {agent}: {error}"),
    }
}

fn exchange(agent: SocketAddr, path: &str) -> io::Result<Reply> {
    let (mut reply, stream) = request(agent, path, ANSWERING)?;
    stream.take(LONGEST_ANSWER).read_to_string(&mut reply.body)?;
    Ok(reply)
}

/// Logs, rules and traces are only for clients that call from a loopback address. One can do so at any address of the node.
fn connect(agent: SocketAddr) -> io::Result<TcpStream> {
    let is_of_node = UdpSocket::bind((agent.ip(), 0)).is_ok();
    let from = match agent.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    match is_of_node && !agent.ip().is_loopback() {
        true => connect_from(from, agent).or_else(|_| TcpStream::connect_timeout(&agent, CONNECTING)),
        false => TcpStream::connect_timeout(&agent, CONNECTING),
    }
}

fn connect_from(from: IpAddr, agent: SocketAddr) -> io::Result<TcpStream> {
    let family = if agent.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A connect waits no longer than a write may.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(CONNECTING))?;
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    rustix::net::connect(&socket, &agent)?;
    Ok(socket.into())
}

/// Ask, and read the head of the answer.
fn request(agent: SocketAddr, path: &str, patience: Duration) -> io::Result<(Reply, BufReader<TcpStream>)> {
    let mut stream = connect(agent)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(CONNECTING))?;
    // At once: a second small write would wait for the first to be acknowledged.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {agent}\r\nAccept: */*\r\n\r\n").as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    while !head.ends_with("\r\n\r\n") {
        let length = (&mut stream).take(LONGEST_LINE).read_line(&mut head)?;
        if length == 0 || head.len() as u64 > LONGEST_LINE {
            return Err(invalid());
        }
    }
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(invalid)?;
    Ok((Reply { code, head, body: String::new() }, stream))
}
