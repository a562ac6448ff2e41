//! Servers and clients that make load.
//!
//! A client says one byte: `q` is answered by one byte, `s` by zeros without end.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sandbox::Namespace;
use serde::Serialize;

use crate::Failure;
use bench_support::gauge::quantile;

const TIMEOUT: Duration = Duration::from_secs(20);
/// UDP clients that wait for an answer at once.
const AT_ONCE: usize = 1_000;

/// What is left after many connections.
#[derive(Debug, Serialize)]
pub(crate) struct Leak {
    pub(super) connections: usize,
    pub(super) descriptors: i64,
    pub(super) open: i64,
    pub(super) kib: i64,
}

pub(super) fn serve(listener: TcpListener, threads: usize) -> Result<(), Failure> {
    for _ in 0..threads {
        let listener = listener.try_clone()?;
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Whoever says nothing must not keep the others.
                let mut said = [0];
                let waits = client.set_nonblocking(true).is_ok();
                let asked = (&client).read(&mut said).is_ok_and(|count| count == 1);
                match (asked, said) {
                    (true, [b'q']) => drop((&client).write_all(b"a")),
                    _ if waits => drop(std::thread::spawn(move || answer(client, asked, said))),
                    _ => {}
                }
            }
        });
    }
    Ok(())
}

fn answer(mut client: TcpStream, asked: bool, mut said: [u8; 1]) {
    let _ = client.set_nonblocking(false);
    if !asked && !client.read(&mut said).is_ok_and(|count| count == 1) {
        return;
    }
    if said == [b'q'] {
        return drop(client.write_all(b"a"));
    }
    let zeros = vec![0; 256 * 1024];
    while client.write_all(&zeros).is_ok() {}
}

pub(super) fn echo(socket: UdpSocket) {
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(buffer.get(..count).unwrap_or_default(), from);
        }
    });
}

pub(super) fn exchange(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"q")?;
    stream.read_exact(&mut [0])
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

/// Connections per second, of several clients at once.
pub(super) fn short_connections(
    from: &Namespace,
    to: SocketAddr,
    threads: usize,
    each: Duration,
) -> Result<f64, Failure> {
    let until = Instant::now() + each;
    let started = Instant::now();
    let done = in_threads(from, to, threads, move |_| Instant::now() < until)?;
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

pub(super) fn many_short(
    from: &Namespace,
    to: SocketAddr,
    threads: usize,
    count: usize,
) -> Result<(), Failure> {
    in_threads(from, to, threads, move |begun| begun < count).map(drop)
}

/// Exchange until `goes_on` says no to how many were begun. Returns how many were done.
fn in_threads(
    from: &Namespace,
    to: SocketAddr,
    threads: usize,
    goes_on: impl Fn(usize) -> bool + Copy + Send + Sync + 'static,
) -> Result<usize, Failure> {
    let begun = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for _ in 0..threads {
        let (from, begun) = (from.try_clone()?, begun.clone());
        clients.push(std::thread::spawn(move || {
            from.try_run(|| {
                let mut done = 0;
                while goes_on(begun.fetch_add(1, Ordering::Relaxed)) {
                    TcpStream::connect(to).and_then(exchange)?;
                    done += 1;
                }
                Ok::<usize, std::io::Error>(done)
            })
        }));
    }
    let mut done = 0;
    for client in clients {
        done += client.join().map_err(|_| "a client panicked")???;
    }
    Ok(done)
}

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

pub(super) fn ask_for_much(stream: &mut TcpStream) -> Result<(), Failure> {
    Ok(stream.write_all(b"s")?)
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
