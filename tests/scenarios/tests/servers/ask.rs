//! A client that knows just enough HTTP, and gives up in time.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

use sandbox::Namespace;
use test_support::{SOON, patient};

/// Who asks has an address of its own, as a kubelet or a load balancer has: a crowd has others.
const ASKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.body))
    }
}

pub(crate) fn get(from: &Namespace, at: &str, path: &str) -> io::Result<Reply> {
    ask(from, at, "GET", path, &[], "")
}

/// As a browser that was sent here under this name.
pub(crate) fn ask_host(from: &Namespace, at: &str, host: &str, path: &str) -> io::Result<Reply> {
    send(from, at, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

pub(crate) fn ask(
    from: &Namespace,
    at: &str,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<Reply> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n");
    headers.iter().for_each(|header| text.push_str(&format!("{header}\r\n")));
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    send(from, at, &text)
}

fn send(from: &Namespace, at: &str, text: &str) -> io::Result<Reply> {
    let mut stream = connect(from, at.parse().unwrap())?;
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let code = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or(io::ErrorKind::InvalidData)?;
    Ok(Reply { code, head: head.to_owned(), body: body.to_owned() })
}

pub(crate) fn connect(from: &Namespace, at: SocketAddr) -> io::Result<TcpStream> {
    let stream = from.run(|| match at {
        SocketAddr::V4(at) => connect_as(ASKER, at),
        at => TcpStream::connect_timeout(&at, patient(SOON)),
    })?;
    stream.set_read_timeout(Some(patient(SOON)))?;
    stream.set_write_timeout(Some(patient(SOON)))?;
    Ok(stream)
}

/// From this address.
pub(crate) fn connect_from(asker: Ipv4Addr, at: &str) -> TcpStream {
    let stream = connect_as(asker, at.parse().unwrap()).unwrap();
    stream.set_read_timeout(Some(patient(SOON))).unwrap();
    stream
}

fn connect_as(asker: Ipv4Addr, at: SocketAddrV4) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A connect waits no longer than a write may.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patient(SOON)))?;
    rustix::net::bind(&socket, &SocketAddrV4::new(asker, 0))?;
    rustix::net::connect(&socket, &at)?;
    Ok(TcpStream::from(socket))
}
