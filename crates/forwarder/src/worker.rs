//! One thread of the forwarder: waits for events and carries connections on. It never blocks on anything but that wait.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::Shared;
use crate::conn::Conn;
use crate::counts::RAISE_OPEN_FILES;
use crate::front::Front;
use crate::slab::Slab;
use crate::token::Token;
use crate::udp::Datagrams;
use crate::way::Tools;
use model::Protocol;

/// Events that are taken from the kernel at once.
const EVENTS: usize = 256;
/// How long no connection is accepted when descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Between two attempts to be told of the clients of a front.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// What another thread wants.
pub(crate) enum Order {
    Open(u32, Front),
    Close(u32),
    /// Let in who waits, and nobody else. The sender is let go of when it is done.
    LastCall(Sender<()>),
    /// End. The sender goes with the thread.
    Stop(Sender<()>),
}

/// Passes orders to a worker.
#[derive(Clone)]
pub(crate) struct Inbox {
    orders: Arc<Mutex<Vec<Order>>>,
    wake: Arc<OwnedFd>,
}

impl Inbox {
    pub(crate) fn new() -> Result<Inbox, Errno> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { orders: Arc::default(), wake: Arc::new(wake) })
    }

    pub(crate) fn send(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        // It fails only if there are 2^64 wake-ups to be read already.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<Order> {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        std::mem::take(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Worker {
    pub(crate) epoll: OwnedFd,
    pub(crate) shared: Arc<Shared>,
    inbox: Inbox,
    fronts: HashMap<u32, Arc<Front>>,
    pub(crate) conns: Slab<Conn>,
    pub(crate) datagrams: Datagrams,
    /// Attempts to connect, and when they have failed; in order.
    pub(crate) dials: VecDeque<(Instant, u32, u16)>,
    /// Connections that could go on when it is their turn again.
    pub(crate) queue: VecDeque<(u32, u16)>,
    pub(crate) tools: Tools,
    /// When to look for connections that have lasted.
    pub(crate) next_look: Option<Instant>,
    /// Connections that the last look found blocked.
    pub(crate) blocked: usize,
    /// Fronts of whose clients the kernel does not tell, and when to ask it again.
    unwatched: Vec<u32>,
    watched_again: Option<Instant>,
    /// No connection is accepted until then.
    paused: Option<Instant>,
    is_closed: bool,
    /// Accepted, without a descriptor for the way to an endpoint. Nobody else is let in, so the next descriptor helps them.
    pub(crate) waiting: Vec<(u32, u16)>,
    pub(crate) now: Instant,
    /// Tells that the thread has ended.
    done: Option<Sender<()>>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, inbox: Inbox) -> Result<Worker, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*inbox.wake, data(Token::Wake), EventFlags::IN)?;
        Ok(Worker {
            epoll,
            datagrams: Datagrams::new(shared.limits.parked / crate::threads()),
            tools: Tools::new(shared.counts.held.clone()),
            shared,
            inbox,
            fronts: HashMap::new(),
            conns: Slab::new(),
            dials: VecDeque::new(),
            queue: VecDeque::new(),
            next_look: None,
            blocked: 0,
            unwatched: Vec::new(),
            watched_again: None,
            paused: None,
            is_closed: false,
            waiting: Vec::new(),
            now: Instant::now(),
            done: None,
        })
    }

    /// Until told to stop. What is not over then is cut off: its peers must not take it for complete.
    pub(crate) fn run(mut self) {
        while let Err(error) = self.carry() {
            tracing::error!(%error, "Failed to wait for events in a forwarder thread; closing its connections and restarting it");
            self.close_all();
            self.end_all_flows();
            std::thread::sleep(PAUSE);
            if let Err(error) = self.watch_again() {
                tracing::error!(%error, "Failed to restart a thread of the forwarder, retrying");
            }
        }
        self.close_all();
    }

    /// Watch everything with another epoll instance.
    fn watch_again(&mut self) -> Result<(), Errno> {
        self.epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&self.epoll, &*self.inbox.wake, data(Token::Wake), EventFlags::IN)?;
        self.is_closed = false;
        self.unwatched.clear();
        for (id, front) in &self.fronts {
            epoll::add(&self.epoll, &front.socket, data(Token::Front(*id)), EventFlags::IN)?;
        }
        Ok(())
    }

    /// Fails only if nothing can be waited for.
    fn carry(&mut self) -> Result<(), Errno> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let timeout = self.wait().and_then(|wait| Timespec::try_from(wait).ok());
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            self.now = Instant::now();
            for event in &events {
                let (token, flags) = (Token::unpack(event.data.u64()), event.flags);
                match token {
                    Token::Wake => {
                        if !self.follow_orders() {
                            return Ok(());
                        }
                    }
                    Token::Front(id) => self.come_in(id),
                    Token::Conn { index, age, is_endpoint } => {
                        self.conn_event(index, age, is_endpoint, flags)
                    }
                    Token::Flow { index, age } => self.flow_event(index, age),
                }
            }
            for _ in 0..self.queue.len() {
                let Some((index, age)) = self.queue.pop_front() else { break };
                self.take_turn(index, age);
            }
            self.expire();
        }
    }

    /// How long to wait for events at most.
    fn wait(&self) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        let dial = self.dials.front().map(|(until, ..)| *until);
        let sweep = self.datagrams.next_sweep();
        let next = [dial, self.paused, self.next_look, sweep, self.watched_again].into_iter().flatten().min();
        // A millisecond is what the kernel counts in; less would spin.
        next.map(|next| next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn follow_orders(&mut self) -> bool {
        for order in self.inbox.take() {
            match order {
                Order::Stop(done) => {
                    self.done = Some(done);
                    return false;
                }
                Order::LastCall(done) => {
                    self.call_last();
                    drop(done);
                }
                Order::Open(id, front) => {
                    self.fronts.insert(id, Arc::new(front));
                    self.watch_front(id);
                }
                Order::Close(id) => {
                    self.fronts.remove(&id);
                    self.close_flows_of(id);
                }
            }
        }
        true
    }

    /// Be told of clients; again later, if the kernel has no memory for it.
    fn watch_front(&mut self, id: u32) {
        let Some(front) = self.fronts.get(&id) else { return };
        let waits = self.is_closed && front.protocol != Protocol::Udp;
        let flags = if waits { EventFlags::empty() } else { EventFlags::IN };
        let Err(error) = epoll::add(&self.epoll, &front.socket, data(Token::Front(id)), flags) else {
            return;
        };
        if let Some(count) = self.shared.complaints.fronts.note(self.now) {
            tracing::error!(at = %front.at(), %error, count, "Failed to wait for clients; they wait, retrying");
        }
        self.unwatched.push(id);
        self.watched_again = Some(self.now + BETWEEN_ATTEMPTS);
    }

    /// Let in those who have come already, and close the doors of TCP.
    fn call_last(&mut self) {
        let doors = self.fronts.extract_if(|_, front| front.protocol != Protocol::Udp);
        let doors: Vec<Arc<Front>> = doors.map(|(_, front)| front).collect();
        doors.iter().for_each(|front| self.accept_all(front));
    }

    /// Somebody is at the door.
    fn come_in(&mut self, id: u32) {
        let Some(front) = self.front(id) else { return };
        match front.protocol {
            Protocol::Udp => self.receive(id, &front),
            Protocol::Tcp | Protocol::Sctp => self.accept(&front),
        }
    }

    pub(crate) fn front(&self, id: u32) -> Option<Arc<Front>> {
        self.fronts.get(&id).cloned()
    }

    /// There are no descriptors left: no connection comes in for a while, and the kernel lets them wait.
    pub(crate) fn pause(&mut self) {
        if let Some(count) = self.shared.complaints.descriptors.note(self.now) {
            tracing::error!(count, "Out of file descriptors; new connections wait. {RAISE_OPEN_FILES}");
        }
        self.set_open(false);
        self.paused = Some(self.now + PAUSE);
    }

    /// Flows of UDP that are open have their descriptors, and need their fronts.
    fn set_open(&mut self, is_open: bool) {
        if std::mem::replace(&mut self.is_closed, !is_open) != is_open {
            return;
        }
        let flags = if is_open { EventFlags::IN } else { EventFlags::empty() };
        for (id, front) in self.fronts.iter().filter(|(_, front)| front.protocol != Protocol::Udp) {
            let _ = epoll::modify(&self.epoll, &front.socket, data(Token::Front(*id)), flags);
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Whatever has waited long enough.
    fn expire(&mut self) {
        if self.paused.is_some_and(|until| until <= self.now) {
            self.paused = None;
            for (index, age) in std::mem::take(&mut self.waiting) {
                self.dial_next(index, age);
            }
            // Who waits comes before who is not in yet.
            if self.paused.is_none() {
                self.set_open(true);
            }
        }
        if self.watched_again.is_some_and(|at| at <= self.now) {
            self.watched_again = None;
            std::mem::take(&mut self.unwatched).into_iter().for_each(|id| self.watch_front(id));
        }
        while let Some((until, index, age)) = self.dials.front().copied() {
            if until > self.now {
                break;
            }
            self.dials.pop_front();
            self.dial_timed_out(until, index, age);
        }
        self.look_at_lasting();
        self.sweep_flows();
    }
}

fn data(token: Token) -> EventData {
    EventData::new_u64(token.pack())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use model::{Family, Pool};

    use super::*;
    use crate::complaints::INTERVAL;
    use crate::counts::Refused;
    use crate::front::Means;

    #[test]
    fn a_thread_that_cannot_wait_starts_again() {
        let shared = Arc::new(Shared::new(crate::Limits::of(1024, 0, 28_232)));
        let inbox = Inbox::new().unwrap();
        let mut worker = Worker::new(shared.clone(), inbox.clone()).unwrap();
        // Nothing can be waited for with it.
        worker.epoll = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let at = "127.84.85.2:30003";
        worker.fronts.insert(0, front(at));
        let thread = std::thread::spawn(move || worker.run());
        let _client = TcpStream::connect(at).unwrap();
        let refused = || shared.counts.of(Family::V4, Protocol::Tcp).refused(Refused::Unknown);
        assert!(crate::patience::soon(|| refused() > 0), "nobody takes care of the client");
        inbox.send(Order::Stop(std::sync::mpsc::channel().0));
        thread.join().unwrap();
    }

    fn front(at: &str) -> Arc<Front> {
        let at = Means::NodePort(at.parse().unwrap());
        Arc::new(Front::open(Protocol::Tcp, Pool::Cluster, at).unwrap())
    }

    /// Clients wait in the kernel: who is at the door wakes nobody until it is time to try again.
    #[test]
    fn a_thread_without_descriptors_sleeps_and_several_say_so_once() {
        let shared = Arc::new(Shared::new(crate::Limits::of(1024, 0, 28_232)));
        let mut workers = [0; 2].map(|_| Worker::new(shared.clone(), Inbox::new().unwrap()).unwrap());
        let at = "127.84.85.5:30003";
        workers[0].inbox.send(Order::Open(7, Arc::into_inner(front(at)).unwrap()));
        assert!(workers[0].follow_orders());
        let _client = TcpStream::connect(at).unwrap();
        let come = |worker: &Worker| {
            let (mut events, now) = (Vec::with_capacity(1), Timespec::default());
            epoll::wait(&worker.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap()
        };
        assert_eq!(come(&workers[0]), 1);
        workers.iter_mut().for_each(Worker::pause);
        let [worker, _] = &mut workers;
        assert_eq!(come(worker), 0, "it would be woken without end");
        assert_eq!(worker.paused, Some(worker.now + PAUSE));
        assert_eq!(shared.complaints.descriptors.note(worker.now), None);
        assert_eq!(
            shared.complaints.descriptors.note(worker.now + INTERVAL),
            Some(3),
            "with those of the other"
        );
        worker.now += PAUSE;
        worker.expire();
        assert_eq!(come(worker), 1);
    }

    #[test]
    fn the_last_call_lets_all_in_who_have_come() {
        let shared = Arc::new(Shared::new(crate::Limits::of(1024, 0, 28_232)));
        let mut worker = Worker::new(shared.clone(), Inbox::new().unwrap()).unwrap();
        let at = "127.84.85.3:30003";
        worker.fronts.insert(0, front(at));
        let clients = [0; 5].map(|_| TcpStream::connect(at).unwrap());
        worker.call_last();
        // Nobody knows the service here.
        assert_eq!(shared.counts.of(Family::V4, Protocol::Tcp).refused(Refused::Unknown), 5);
        assert!(TcpStream::connect(at).is_err(), "the door is closed");
        drop(clients);
    }

    #[test]
    fn a_front_that_cannot_be_watched_is_tried_again() {
        let (shared, inbox) = (Shared::new(crate::Limits::of(1024, 0, 28_232)), Inbox::new().unwrap());
        let mut worker = Worker::new(Arc::new(shared), inbox.clone()).unwrap();
        let nothing = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let epoll = std::mem::replace(&mut worker.epoll, nothing);
        let at = "127.84.85.4:30003";
        inbox.send(Order::Open(7, Arc::into_inner(front(at)).unwrap()));
        assert!(worker.follow_orders());
        worker.epoll = epoll;
        assert!(worker.wait().is_some_and(|wait| wait <= 2 * BETWEEN_ATTEMPTS));
        worker.now += BETWEEN_ATTEMPTS;
        worker.expire();
        let _client = TcpStream::connect(at).unwrap();
        let mut events = Vec::with_capacity(1);
        epoll::wait(&worker.epoll, rustix::buffer::spare_capacity(&mut events), None).unwrap();
        assert_eq!(Token::unpack(events[0].data.u64()), Token::Front(7));
    }
}
