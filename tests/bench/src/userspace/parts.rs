//! What is measured of the forwarder alone.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use test_support::{SOON, let_pass, wait_until};

use super::load;
use super::scene::{Scene, Service};
use crate::Failure;

/// Clients that ask at once.
pub(super) const THREADS: usize = 8;

/// What is left after many connections.
#[derive(Debug, Serialize)]
pub(crate) struct Leak {
    pub(super) connections: usize,
    pub(super) descriptors: i64,
    pub(super) open: i64,
    pub(super) kib: i64,
}

pub(super) fn leak(scene: &Scene, connections: usize) -> Result<Leak, Failure> {
    let many = |count| {
        let tally = load::in_threads(scene.caller()?, Service::Web.at(), THREADS, move |begun| begun < count);
        tally?.all()
    };
    // What is kept for the next connections is there before.
    many(2_000)?;
    wait_until(SOON, || scene.open().is_ok_and(|open| open == 0));
    let before = settled(scene)?;
    let kib = scene.kib()?;
    many(connections)?;
    wait_until(SOON, || scene.open().is_ok_and(|open| open == 0));
    let open = scene.open()?;
    // Nobody asks the agent for anything from here on, so none comes for a moment.
    wait_until(SOON, || scene.descriptors().is_ok_and(|now| now <= before));
    let descriptors = scene.descriptors()? as i64 - before as i64;
    Ok(Leak { connections, descriptors, open, kib: scene.kib()? - kib })
}

/// The agent's descriptors once nobody asks it for anything: reading its metrics takes one for a moment.
fn settled(scene: &Scene) -> Result<usize, Failure> {
    let mut fewest = scene.descriptors()?;
    for _ in 0..10 {
        let_pass(Duration::from_millis(50));
        fewest = fewest.min(scene.descriptors()?);
    }
    Ok(fewest)
}

fn open(scene: &Scene, service: Service, count: usize) -> Result<Vec<TcpStream>, Failure> {
    (0..count).map(|_| scene.connect(service.at())).collect()
}

/// Open connections, all of which have been used.
#[derive(Debug, Serialize)]
pub(crate) struct Crowd {
    pub(super) wanted: usize,
    /// As many as the limit of open files allows.
    pub(super) count: usize,
    /// Memory of the whole agent, at rest and with them.
    pub(super) kib: [i64; 2],
    /// What it grew by, for each.
    pub(super) bytes_each: f64,
}

pub(super) fn weigh(scene: &Scene, wanted: usize) -> Result<Crowd, Failure> {
    let before = scene.kib()?;
    let each = (wanted / 2).min(scene.room("tcp")? * 9 / 10);
    let mut all = open(scene, Service::Web, each)?;
    all.extend(open(scene, Service::Three, each)?);
    for stream in &all {
        load::ping(stream)?;
    }
    let (after, open, count) = (scene.kib()?, scene.open()?, all.len());
    if open < count as i64 {
        return Err(format!("{open} of {count} connections are open").into());
    }
    let bytes_each = (after - before).max(0) as f64 * 1024.0 / count as f64;
    Ok(Crowd { wanted, count, kib: [before, after], bytes_each })
}

/// Others, alone and beside clients that ask for much and never read.
#[derive(Debug, Serialize)]
pub(crate) struct SlowReaders {
    pub(super) count: usize,
    /// One stream.
    pub(super) gigabits: [f64; 2],
    /// A short connection.
    pub(super) short_us: [f64; 2],
    pub(super) kib_each: f64,
}

pub(super) fn slow_readers(scene: &Scene, count: usize, each: Duration) -> Result<SlowReaders, Failure> {
    let to = Service::Web.at();
    let stream = || {
        let rounds = (0..3).map(|_| load::stream(scene.connect(to)?, each));
        rounds.collect::<Result<Vec<f64>, Failure>>().map(|rounds| rounds.into_iter().fold(0.0, f64::max))
    };
    let before = scene.kib()?;
    let alone = (stream()?, load::median_us(scene.caller()?, to)?);
    let readers = open(scene, Service::Web, count)?;
    readers.iter().try_for_each(load::ask_in_vain)?;
    // Until every buffer on the way is full.
    let_pass(Duration::from_secs(2));
    let beside = (stream()?, load::median_us(scene.caller()?, to)?);
    let kib = scene.kib()? - before;
    drop(readers);
    wait_until(SOON, || scene.open().is_ok_and(|open| open == 0));
    Ok(SlowReaders {
        count,
        gigabits: [alone.0, beside.0],
        short_us: [alone.1, beside.1],
        kib_each: kib.max(0) as f64 / count as f64,
    })
}

/// What became of connections when one of three endpoints was killed.
#[derive(Debug, Serialize)]
pub(crate) struct Killed {
    /// Connections that were open, to it and to others.
    pub(super) held: [usize; 2],
    pub(super) broken: [usize; 2],
    /// Short connections meanwhile.
    pub(super) short: usize,
    pub(super) short_broken: usize,
    /// How many of these could be at the endpoint when it ended.
    pub(super) at_once: usize,
}

pub(super) fn kill(scene: &mut Scene, count: usize) -> Result<Killed, Failure> {
    let held = open(scene, Service::Three, count)?;
    let names = held.iter().map(load::ping).collect::<Result<Vec<u8>, _>>()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let (from, seen) = (scene.caller()?.try_clone()?, is_over.clone());
    let short = std::thread::spawn(move || {
        load::in_threads(&from, Service::Three.at(), THREADS, move |_| !seen.load(Ordering::Relaxed))
    });
    let_pass(Duration::from_millis(300));
    let doomed = scene.servers.pop().ok_or("nobody to kill")?;
    drop(doomed);
    let name = b'a' + scene.servers.len() as u8;
    let (mut all, mut broken) = ([0; 2], [0; 2]);
    for (stream, by) in held.iter().zip(names) {
        let other = usize::from(by != name);
        all[other] += 1;
        broken[other] += usize::from(load::ping(stream).is_err());
    }
    let_pass(Duration::from_millis(300));
    is_over.store(true, Ordering::Relaxed);
    let tally = short.join().map_err(|_| "a client panicked")??;
    Ok(Killed {
        held: all,
        broken,
        short: tally.done + tally.broken,
        short_broken: tally.broken,
        at_once: THREADS,
    })
}

#[derive(Debug, Serialize)]
pub(crate) struct Udp {
    pub(super) clients: usize,
    pub(super) at_once: usize,
    /// Clients that got another one's answer, and clients that got none.
    pub(super) crossed: usize,
    pub(super) lost: usize,
}

/// As many at once as the limit of open files allows.
pub(super) fn udp(scene: &Scene, clients: usize) -> Result<Udp, Failure> {
    let at_once = scene.room("udp")?.min(clients).max(1);
    let mut udp = Udp { clients, at_once, crossed: 0, lost: 0 };
    let mut left = clients;
    while left > 0 {
        let some = left.min(at_once);
        let (crossed, lost) = load::datagrams(scene.caller()?, Service::Datagrams.at(), some)?;
        udp.crossed += crossed;
        udp.lost += lost;
        left -= some;
        let open = "open_connections{ip_family=\"IPv4\",protocol=\"udp\"}";
        wait_until(SOON, || scene.metric(open).is_ok_and(|open| open == 0));
    }
    Ok(udp)
}
