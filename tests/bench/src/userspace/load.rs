//! Clients that make load.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench_support::gauge::quantile;
use sandbox::Namespace;

use crate::Failure;

const TIMEOUT: Duration = Duration::from_secs(20);
/// UDP clients that wait for an answer at once.
const AT_ONCE: usize = 250;

pub(super) fn echo(socket: UdpSocket) {
    // What the server loses says nothing about the way to it.
    let _smaller_will_do = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 4 * 1024 * 1024);
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(buffer.get(..count).unwrap_or_default(), from);
        }
    });
}

/// One question and its answer, which ends the connection.
pub(super) fn exchange(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"q")?;
    stream.read_exact(&mut [0])
}

/// One question of several. Returns who answered.
pub(super) fn ping(mut stream: &TcpStream) -> std::io::Result<u8> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"e")?;
    let mut name = [0];
    stream.read_exact(&mut name)?;
    Ok(name[0])
}

/// To read nothing of it. What the server itself would keep in its buffers is the same without a proxy, and no matter here.
pub(super) fn ask_in_vain(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.write_all(b"l")
}

/// Gigabits per second of one stream.
pub(super) fn stream(mut stream: TcpStream, each: Duration) -> Result<f64, Failure> {
    stream.write_all(b"s")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = vec![0; 512 * 1024];
    let read_for = |stream: &mut TcpStream, buffer: &mut [u8], time: Duration| {
        let (started, mut bytes) = (Instant::now(), 0_usize);
        while started.elapsed() < time {
            bytes += stream.read(buffer)?;
        }
        Ok::<f64, std::io::Error>(bytes as f64 * 8.0 / 1e9 / started.elapsed().as_secs_f64())
    };
    // The windows grow first.
    read_for(&mut stream, &mut buffer, each / 4)?;
    Ok(read_for(&mut stream, &mut buffer, each)?)
}

/// What became of short connections.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) done: usize,
    pub(super) broken: usize,
    first: Option<std::io::Error>,
}

impl Tally {
    /// How many were done; an error if not all were.
    pub(super) fn all(self) -> Result<usize, Failure> {
        self.first.map_or(Ok(self.done), |error| Err(error.into()))
    }
}

/// Connections per second, of several clients at once.
pub(super) fn short_connections(
    from: &Namespace,
    to: SocketAddr,
    threads: usize,
    each: Duration,
) -> Result<f64, Failure> {
    let started = Instant::now();
    let until = started + each;
    let done = in_threads(from, to, threads, move |_| Instant::now() < until)?.all()?;
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

/// Exchange until `goes_on` says no to how many were begun.
pub(super) fn in_threads(
    from: &Namespace,
    to: SocketAddr,
    threads: usize,
    goes_on: impl Fn(usize) -> bool + Clone + Send + Sync + 'static,
) -> Result<Tally, Failure> {
    let begun = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..threads {
        let (from, begun, goes_on) = (from.try_clone()?, begun.clone(), goes_on.clone());
        clients.push(std::thread::spawn(move || {
            from.try_run(|| {
                let mut tally = Tally::default();
                while goes_on(begun.fetch_add(1, Ordering::Relaxed)) {
                    match TcpStream::connect(to).and_then(exchange) {
                        Ok(()) => tally.done += 1,
                        Err(error) => {
                            tally.broken += 1;
                            tally.first.get_or_insert(error);
                        }
                    }
                }
                tally
            })
        }));
    }
    let mut all = Tally::default();
    for client in clients {
        let tally = client.join().map_err(|_| "a client panicked")??;
        all.done += tally.done;
        all.broken += tally.broken;
        all.first = all.first.or(tally.first);
    }
    Ok(all)
}

/// The median of a short connection.
pub(super) fn median_us(from: &Namespace, to: SocketAddr) -> Result<f64, Failure> {
    let times = from.try_run(|| {
        let mut times = Vec::new();
        for _ in 0..200 {
            let started = Instant::now();
            TcpStream::connect(to).and_then(exchange)?;
            times.push(started.elapsed().as_secs_f64() * 1e6);
        }
        Ok::<Vec<f64>, std::io::Error>(times)
    })??;
    Ok(quantile(&times, 0.5))
}

/// Each client says its number and expects it back. Returns how many got another one, and how many none.
pub(super) fn datagrams(from: &Namespace, to: SocketAddr, clients: usize) -> Result<(usize, usize), Failure> {
    from.try_run(|| {
        let mut sockets = Vec::with_capacity(clients);
        let (mut crossed, mut lost) = (0, 0);
        for number in 0..clients {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(Duration::from_secs(2)))?;
            sockets.push((number as u64, socket));
        }
        // Twice: the second time every flow is known.
        for _ in 0..2 {
            for some in sockets.chunks(AT_ONCE) {
                for (number, socket) in some {
                    socket.send(&number.to_be_bytes())?;
                }
                for (number, socket) in some {
                    let mut answer = [0; 8];
                    match socket.recv(&mut answer) {
                        Ok(8) if u64::from_be_bytes(answer) == *number => {}
                        Ok(_) => crossed += 1,
                        Err(_) => lost += 1,
                    }
                }
            }
        }
        Ok::<_, std::io::Error>((crossed, lost))
    })?
    .map_err(Into::into)
}
