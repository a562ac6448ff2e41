//! The forwarder: carries connections of TCP and flows of UDP from clients to endpoints, on threads of its own. Neither the
//! sync thread nor a probe ever waits for it; it asks the [`Directory`] which service a client means.

mod complaints;
mod conn;
mod counts;
mod directory;
mod ending;
mod flows;
mod front;
mod memory;
mod parked;
#[cfg(test)]
#[path = "../tests/carry/patience.rs"]
mod patience;
mod pins;
mod pipes;
mod port;
mod queues;
mod slab;
mod sockets;
mod suspects;
mod tcp;
mod token;
mod udp;
mod unreachable;
mod way;
mod worker;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::{Pool, Protocol};

use complaints::Complaints;
use front::Front;
use worker::{Inbox, Order, Worker};

pub use counts::{Count, Counts, Limits, Refused};
pub use directory::Directory;
pub use ending::Ending;
pub use front::Means;
/// Where clients are redirected to.
pub use model::FORWARDER as ADDRESSES;
pub use port::Port;

/// More threads than this gain nothing: one carries ten gigabits.
const MOST_THREADS: usize = 4;

/// A service or endpoint there would lead the forwarder to itself, and rules for it would meet the clients of all services.
pub fn is_own(ip: IpAddr) -> bool {
    ADDRESSES.contains(&ip)
}

/// Whether there is a way for clients of this protocol.
pub fn carries(protocol: Protocol) -> bool {
    protocol != Protocol::Sctp
}

/// One per processor.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

/// What all threads share.
pub struct Shared {
    pub directory: Arc<Directory>,
    pub counts: Counts,
    pub limits: Limits,
    complaints: Complaints,
    mark: AtomicU32,
    udp_idle_ms: AtomicU64,
}

impl Shared {
    fn new(limits: Limits) -> Shared {
        Shared {
            directory: Arc::default(),
            counts: Counts::default(),
            limits,
            complaints: Complaints::default(),
            mark: AtomicU32::new(0),
            udp_idle_ms: AtomicU64::new(30_000),
        }
    }

    fn mark(&self) -> u32 {
        self.mark.load(Ordering::Relaxed)
    }

    fn udp_idle(&self) -> Duration {
        Duration::from_millis(self.udp_idle_ms.load(Ordering::Relaxed).max(1))
    }

    /// The mark of packets to endpoints.
    pub fn set_mark(&self, mark: u32) {
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// How long a flow of UDP lives without a datagram.
    pub fn set_udp_idle(&self, idle: Duration) {
        self.udp_idle_ms.store(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Ends its threads when it is dropped.
pub struct Forwarder {
    pub shared: Arc<Shared>,
    /// From any thread.
    pub ending: Arc<Ending>,
    inboxes: Box<[Inbox]>,
    threads: Vec<JoinHandle<()>>,
    fronts: AtomicU32,
}

/// A door that clients come in by. It is closed with [`Forwarder::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrontId(u32);

impl Forwarder {
    /// Start the threads, in the network namespace of the calling thread. So many fronts may be opened.
    pub fn start(fronts: usize) -> io::Result<Forwarder> {
        let descriptors = kernel::process::open_files().unwrap_or(1024);
        let shared = Arc::new(Shared::new(Limits::of(descriptors, fronts, counts::local_ports())));
        let inboxes = (0..threads()).map(|_| Inbox::new()).collect::<Result<Box<[Inbox]>, _>>()?;
        let ending = Arc::new(Ending::new(shared.clone(), inboxes.clone()));
        let fronts = AtomicU32::new(0);
        let mut forwarder = Forwarder { shared, ending, inboxes, threads: Vec::new(), fronts };
        for (number, inbox) in forwarder.inboxes.iter().enumerate() {
            let worker = Worker::new(forwarder.shared.clone(), inbox.clone())?;
            let thread = std::thread::Builder::new().name(format!("forward-{number}"));
            forwarder.threads.push(thread.spawn(move || worker.run())?);
        }
        Ok(forwarder)
    }

    /// Let clients in at addresses that the rules redirect to, at all of them or at none: each thread has a socket there.
    pub fn open_shared(&self, wanted: &[(Protocol, Pool, Means)]) -> io::Result<()> {
        let mut opened = Vec::new();
        for inbox in &self.inboxes {
            for (protocol, pool, means) in wanted {
                opened.push((inbox, Front::open(*protocol, *pool, *means)?));
            }
        }
        for (inbox, front) in opened {
            inbox.send(Order::Open(self.next_id(), front));
        }
        Ok(())
    }

    /// Let clients in at an address of their own choice: one thread has it.
    pub fn open(&self, protocol: Protocol, pool: Pool, means: Means) -> io::Result<FrontId> {
        let front = Front::open(protocol, pool, means)?;
        let id = self.next_id();
        self.tell(id, Order::Open(id, front));
        Ok(FrontId(id))
    }

    pub fn close(&self, FrontId(id): FrontId) {
        self.tell(id, Order::Close(id));
    }

    /// Tell the thread that has this front.
    fn tell(&self, id: u32, order: Order) {
        if let Some(inbox) = self.inboxes.get(id as usize % self.inboxes.len().max(1)) {
            inbox.send(order);
        }
    }

    fn next_id(&self) -> u32 {
        self.fronts.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.ending.by(Instant::now());
        for thread in self.threads.drain(..) {
            // One that has panicked is gone as well.
            let _ = thread.join();
        }
    }
}
