//! Lines and minimal HTTP over any number of connections, of TCP or SCTP, in one thread.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

use super::Control;

/// A request larger than this is no request.
const LONGEST: usize = 16 * 1024;

struct Connection {
    stream: TcpStream,
    client: IpAddr,
    input: Vec<u8>,
}

/// Whether a connection goes on.
#[derive(PartialEq, Eq)]
enum After {
    Open,
    Close,
}

pub(super) fn serve(listener: &TcpListener, name: &str, control: &Control) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let mut waiting = Vec::with_capacity(connections.len() + 2);
        waiting.push(PollFd::from_borrowed_fd(control.stop(), PollFlags::IN));
        waiting.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        waiting.extend(connections.iter().map(|c| PollFd::from_borrowed_fd(c.stream.as_fd(), PollFlags::IN)));
        match poll(&mut waiting, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let mut ready =
            waiting.iter().map(|entry| !entry.revents().is_empty()).collect::<Vec<_>>().into_iter();
        if ready.next() == Some(true) {
            return;
        }
        let knocked = ready.next() == Some(true);
        connections.retain_mut(|c| ready.next() != Some(true) || c.proceed(name, control) == After::Open);
        if knocked {
            accept(listener, &mut connections);
        }
    }
}

fn accept(listener: &TcpListener, connections: &mut Vec<Connection>) {
    while let Ok((stream, client)) = listener.accept() {
        if stream.set_nonblocking(true).is_ok() {
            connections.push(Connection { stream, client: client.ip(), input: Vec::new() });
        }
    }
}

impl Connection {
    /// Take what has arrived and answer what is complete.
    fn proceed(&mut self, name: &str, control: &Control) -> After {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => return After::Close,
            Ok(length) => self.input.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return After::Open,
            Err(_) => return After::Close,
        }
        if self.input.len() > LONGEST {
            return After::Close;
        }
        if self.input.starts_with(b"GET ") { self.http(name, control) } else { self.lines(name, control) }
    }

    fn http(&mut self, name: &str, control: &Control) -> After {
        if !self.input.windows(4).any(|w| w == b"\r\n\r\n") {
            return After::Open;
        }
        control.count();
        let body = format!("{name} {}\n", self.client);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close";
        let _ = write!(self.stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        After::Close
    }

    fn lines(&mut self, name: &str, control: &Control) -> After {
        while let Some(end) = self.input.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            let sent = if line == b"who\n" {
                control.count();
                self.stream.write_all(format!("{name} {}\n", self.client).as_bytes())
            } else {
                self.stream.write_all(&line)
            };
            if sent.is_err() {
                return After::Close;
            }
        }
        After::Open
    }
}
