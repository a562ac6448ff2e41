//! The asking side: one question from a namespace to an address, and what became of it.

mod dial;
mod hold;
mod outcome;
mod udp;

pub use hold::{Hold, Pulse};
pub use outcome::Outcome;
pub use udp::UdpFlow;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::Namespace;

/// Connect, ask over HTTP, read the answer; `timeout` is for all of it.
pub fn tcp(from: &Namespace, source: Option<IpAddr>, to: SocketAddr, timeout: Duration) -> Outcome {
    over(dial::dial, from, source, to, timeout)
}

/// The same over SCTP. Give a source address: without one the client offers all that it has, and only one of them is
/// translated on the way.
pub fn sctp(from: &Namespace, source: Option<IpAddr>, to: SocketAddr, timeout: Duration) -> Outcome {
    over(dial::dial_sctp, from, source, to, timeout)
}

fn over(
    dial: fn(Option<IpAddr>, SocketAddr, Instant) -> std::io::Result<TcpStream>,
    from: &Namespace,
    source: Option<IpAddr>,
    to: SocketAddr,
    timeout: Duration,
) -> Outcome {
    let deadline = Instant::now() + timeout;
    let asked = from.try_run(|| {
        let started = Instant::now();
        let answer = dial(source, to, deadline).and_then(|stream| ask_http(stream, deadline));
        Outcome::from_answer(answer, started)
    });
    asked.unwrap_or_else(|error| Outcome::Failed(error.to_string()))
}

/// Send one datagram from a port of its own and wait for the answer.
pub fn udp(from: &Namespace, source: Option<IpAddr>, to: SocketAddr, timeout: Duration) -> Outcome {
    udp_from(from, dial::source_like(source, 0, to), to, timeout)
}

/// The same from a fixed port, so that two questions belong to one flow.
pub fn udp_from(from: &Namespace, source: SocketAddr, to: SocketAddr, timeout: Duration) -> Outcome {
    match UdpFlow::open(from, source, to) {
        Ok(flow) => flow.ask(timeout),
        Err(outcome) => outcome,
    }
}

fn ask_http(mut stream: TcpStream, deadline: Instant) -> std::io::Result<String> {
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        stream.set_read_timeout(Some(dial::left(deadline)?))?;
        match stream.read(&mut chunk)? {
            0 => break,
            length => answer.extend_from_slice(chunk.get(..length).unwrap_or_default()),
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    Ok(text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or(text))
}
