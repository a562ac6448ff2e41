//! Clients that call Services without end while something else happens, and the Services that they call.
//!
//! On every node there are two: one in the node's own network, whose packets begin there, and one beside the pods,
//! whose packets come in. Each opens connections one after the other and holds one open. Another client is outside.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::netns::Namespace;
use test_support::{ANSWER, SOON, patient, wait_until};

/// Leaves the machine some time for what the connections are meant to watch.
const PAUSE: Duration = Duration::from_millis(30);

/// One place from which all targets are called.
#[derive(Debug)]
pub struct Client {
    pub name: String,
    pub namespace: Namespace,
    pub targets: Vec<(String, SocketAddr)>,
}

/// What came of the connections.
#[derive(Debug, Default)]
pub struct Account {
    pub connections: usize,
    /// Requests on connections that were open all the time.
    pub requests: usize,
    pub failures: Vec<String>,
    pub slowest: Duration,
}

/// It ends when this is dropped, so also when a case fails.
#[derive(Debug)]
pub struct Traffic {
    started: Instant,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    account: Arc<Mutex<Account>>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub fn start(clients: &[Client]) -> Result<Traffic, String> {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let account = Arc::new(Mutex::new(Account::default()));
        let mut traffic = Traffic { started: Instant::now(), stop, done, account, threads: Vec::new() };
        for client in clients {
            let name = client.name.clone();
            traffic.spawn(client, move |stop, note, targets| call(&name, stop, note, targets))?;
            let name = client.name.clone();
            traffic.spawn(client, move |stop, note, targets| hold(&name, stop, note, targets))?;
        }
        Ok(traffic)
    }

    fn spawn(
        &mut self,
        client: &Client,
        work: impl FnOnce(&AtomicBool, &dyn Fn(Note), &[(String, SocketAddr)]) + Send + 'static,
    ) -> Result<(), String> {
        let (stop, done, account) = (self.stop.clone(), self.done.clone(), self.account.clone());
        let (targets, started) = (client.targets.clone(), self.started);
        let thread = client.namespace.spawn("client", move || {
            let note = |note: Note| {
                done.fetch_add(1, Ordering::Relaxed);
                let at = started.elapsed().as_secs_f64();
                let note = match note {
                    Note::Failure(what) => Note::Failure(format!("after {at:.1} s: {what}")),
                    other => other,
                };
                account.lock().unwrap().add(note);
            };
            work(&stop, &note, &targets);
        });
        self.threads.push(thread.map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Wait for so many answers more.
    pub fn go_on(&self, more: usize) -> Result<(), String> {
        let wanted = self.done.load(Ordering::Relaxed) + more;
        if wait_until(SOON, || self.done.load(Ordering::Relaxed) >= wanted) {
            return Ok(());
        }
        Err("the traffic stands still".into())
    }

    pub fn finish(mut self) -> Account {
        self.stop.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        std::mem::take(&mut *self.account.lock().unwrap())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

enum Note {
    Connection(Duration),
    Request(Duration),
    Failure(String),
}

impl Account {
    fn add(&mut self, note: Note) {
        match note {
            Note::Connection(time) => {
                self.connections += 1;
                self.slowest = self.slowest.max(time);
            }
            Note::Request(time) => {
                self.requests += 1;
                self.slowest = self.slowest.max(time);
            }
            Note::Failure(what) => self.failures.push(what),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account { connections, requests, failures, slowest } = self;
        write!(
            f,
            "{connections} connections and {requests} requests on open ones, {} failed",
            failures.len()
        )?;
        write!(f, ", the slowest took {} ms", slowest.as_millis())
    }
}

/// A new connection each time.
fn call(name: &str, stop: &AtomicBool, note: &dyn Fn(Note), targets: &[(String, SocketAddr)]) {
    for (what, to) in targets.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let started = Instant::now();
        let outcome = connect(*to).and_then(|mut stream| ask(&mut stream));
        note(match outcome {
            Ok(()) => Note::Connection(started.elapsed()),
            Err(error) => Note::Failure(format!("{name} calls {what} at {to}: {error}")),
        });
        std::thread::sleep(PAUSE);
    }
}

/// One connection to each target, open until the end.
fn hold(name: &str, stop: &AtomicBool, note: &dyn Fn(Note), targets: &[(String, SocketAddr)]) {
    let open = |(what, to): &(String, SocketAddr)| match connect(*to) {
        Ok(stream) => Some((format!("{what} at {to}"), stream)),
        Err(error) => {
            note(Note::Failure(format!("{name} opens a connection to {what} at {to}: {error}")));
            None
        }
    };
    let mut streams: Vec<(String, TcpStream)> = targets.iter().filter_map(open).collect();
    while !stop.load(Ordering::Relaxed) {
        streams.retain_mut(|(what, stream)| {
            std::thread::sleep(PAUSE);
            let started = Instant::now();
            match ask(stream) {
                Ok(()) => note(Note::Request(started.elapsed())),
                Err(error) => {
                    note(Note::Failure(format!("{name} on its open connection to {what}: {error}")));
                    return false;
                }
            }
            true
        });
        if streams.is_empty() {
            return;
        }
    }
}

fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, patient(ANSWER))?;
    stream.set_read_timeout(Some(patient(ANSWER)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One request of HTTP, and its whole answer. The connection stays open.
fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"GET /hostname HTTP/1.1\r\nHost: service\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((_, value)) =
            line.split_once(':').filter(|(key, _)| key.eq_ignore_ascii_case("content-length"))
        {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    let mut body = Vec::new();
    let read = reader.take(length).read_to_end(&mut body)?;
    // The pod's name: an answer without one is none.
    if read == 0 || read as u64 != length { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Where a client calls: an address and a port, under a name.
pub fn target(what: &str, address: IpAddr, port: u16) -> (String, SocketAddr) {
    (what.to_owned(), SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_answer_without_a_body_is_a_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nweb", "HTTP/1.1 200 OK\r\n\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 64];
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        assert!(connect(to).and_then(|mut stream| ask(&mut stream)).is_ok());
        assert!(connect(to).and_then(|mut stream| ask(&mut stream)).is_err());
        server.join().unwrap();
    }
}
