//! A connection of TCP: a client, the endpoint that it was led to, and what is between them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Family, Pool};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::port::Port;
use crate::sockets;
use crate::way::{Pause, Ready, Tools, Way};

/// Endpoints that are tried before the client is turned away.
pub(crate) const MOST_TRIED: usize = 4;
/// How long an endpoint may take to answer.
pub(crate) const DIAL: Duration = Duration::from_secs(2);

/// There will be no more, or an error.
const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// There is something to read.
const COMES: EventFlags = EventFlags::IN.union(EventFlags::PRI);

pub(crate) struct Conn {
    pub(crate) client: OwnedFd,
    pub(crate) endpoint: Option<OwnedFd>,
    /// While no endpoint has answered.
    pub(crate) dial: Option<Box<Dial>>,
    pub(crate) port: Arc<Port>,
    pub(crate) family: Family,
    /// Towards the endpoint, and back.
    ways: [Way; 2],
    /// What the client's socket allows, and the endpoint's.
    ready: [Ready; 2],
    /// Whether the client's socket has failed, and the endpoint's. Nobody learns it by reading if it had ended before.
    has_failed: [bool; 2],
    /// It waits for its next turn.
    pub(crate) is_queued: bool,
    /// Whether the client's side tells when there is room again, and the endpoint's: few ever leave none.
    hears_of_room: [bool; 2],
    /// It has been open for a while, and is looked after if its endpoint goes silently.
    pub(crate) is_kept_alive: bool,
    /// So much had arrived in each direction when it was looked at last.
    seen: [u64; 2],
}

/// What a look at a connection found that has made no progress since the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// One side does not take what the other one sends.
    Blocked { by_endpoint: bool },
    /// The same, and the sender has gone.
    Abandoned,
}

pub(crate) struct Dial {
    pub(crate) pool: Pool,
    pub(crate) client: IpAddr,
    /// The last is the one that is being tried.
    pub(crate) tried: Vec<SocketAddr>,
    /// When it was begun to be tried.
    pub(crate) since: Instant,
}

/// What became of moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waits,
    HadItsTurn,
    Over,
    /// One side broke off.
    Broken,
}

impl Conn {
    pub(crate) fn new(client: OwnedFd, port: Arc<Port>, family: Family, dial: Dial) -> Conn {
        Conn {
            client,
            endpoint: None,
            dial: Some(Box::new(dial)),
            port,
            family,
            // Accepted connections inherit it.
            ways: [Way::default(), Way::to_client()],
            ready: [Ready::default(); 2],
            has_failed: [false; 2],
            is_queued: false,
            hears_of_room: [false; 2],
            is_kept_alive: false,
            seen: [0; 2],
        }
    }

    /// Begin to connect to an endpoint.
    pub(crate) fn dial(&mut self, at: SocketAddr, mark: u32) -> Result<(), Errno> {
        self.endpoint = Some(sockets::dial(at, mark)?);
        Ok(())
    }

    /// Read what the client has said already.
    pub(crate) fn read_early(&mut self, tools: &mut Tools) -> Result<(), Errno> {
        self.ready[0].readable = self.ways[0].read_early(self.client.as_fd(), tools)?;
        Ok(())
    }

    /// Pass on what the client has said already. Returns whether it went through: the endpoint has answered then, as pods on
    /// this node do before `connect` returns.
    pub(crate) fn greet(&mut self, tools: &mut Tools) -> Result<bool, Errno> {
        let Some(endpoint) = &self.endpoint else { return Err(Errno::NOTCONN) };
        if !self.ways[0].holds_something() {
            return Ok(false);
        }
        self.ready[1] = Ready { writable: true, ..Ready::default() };
        if !self.ways[0].deliver(endpoint.as_fd(), &mut self.ready[1], &mut tools.pipes)? {
            return Ok(false);
        }
        self.dial = None;
        self.ready[0].writable = true;
        Ok(true)
    }

    /// The endpoint has answered, or not.
    pub(crate) fn outcome(&self) -> Result<(), Errno> {
        match &self.endpoint {
            Some(endpoint) => sockopt::socket_error(endpoint).and_then(|outcome| outcome),
            None => Err(Errno::NOTCONN),
        }
    }

    /// The endpoint's side tells when something comes; of the client nothing is known, and the first call tells.
    pub(crate) fn opened(&mut self, flags: EventFlags) {
        self.dial = None;
        self.hears_of_room[1] = true;
        let is_hung = flags.intersects(ENDED);
        let readable = is_hung || flags.intersects(COMES);
        let open = Ready { readable: true, writable: true, ..Ready::default() };
        self.ready = [open, Ready { readable, is_hung, ..open }];
        self.note_urgent(true, flags);
    }

    /// One of the sockets has something to say.
    pub(crate) fn heard(&mut self, is_endpoint: bool, flags: EventFlags) {
        let is_hung = flags.intersects(ENDED);
        self.has_failed[usize::from(is_endpoint)] |= flags.contains(EventFlags::ERR);
        let ready = &mut self.ready[usize::from(is_endpoint)];
        ready.is_hung |= is_hung;
        ready.readable |= is_hung || flags.intersects(COMES);
        ready.writable |= flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
        self.note_urgent(is_endpoint, flags);
    }

    /// Urgent data goes on among the other bytes, in order.
    fn note_urgent(&mut self, is_endpoint: bool, flags: EventFlags) {
        let ready = &mut self.ready[usize::from(is_endpoint)];
        if !flags.contains(EventFlags::PRI) || std::mem::replace(&mut ready.is_urgent, true) {
            return;
        }
        if is_endpoint && let Some(endpoint) = &self.endpoint {
            // Clients' sockets have it from the listener.
            let _its_urgent_byte_is_lost = sockets::keep_urgent(endpoint);
        }
    }

    /// The sides that are to tell when there is room, from now on: whether it is the endpoint's, and its socket.
    pub(crate) fn want_room(&mut self) -> impl Iterator<Item = (bool, &OwnedFd)> {
        let wants = |side: usize| !self.ready[side].writable && !self.hears_of_room[side];
        let wanting = [wants(0), wants(1)];
        for (hears, wants) in self.hears_of_room.iter_mut().zip(wanting) {
            *hears |= wants;
        }
        let sockets = [Some((false, &self.client)), self.endpoint.as_ref().map(|socket| (true, socket))];
        sockets.into_iter().zip(wanting).filter_map(|(socket, wants)| socket.filter(|_| wants))
    }

    /// Move what can be moved, in both directions.
    pub(crate) fn pump(&mut self, tools: &mut Tools) -> Progress {
        let Some(endpoint) = &self.endpoint else { return Progress::Broken };
        let (client, endpoint) = (self.client.as_fd(), endpoint.as_fd());
        let ([up, down], [near, far]) = (&mut self.ways, &mut self.ready);
        let there = up.pump((client, near), (endpoint, far), tools, down.is_closed());
        let back = down.pump((endpoint, far), (client, near), tools, up.is_closed());
        match (there, back) {
            (Ok(Pause::Over), Ok(Pause::Over)) => Progress::Over,
            // Nobody waits for what the endpoint does not take, and the endpoint may take nothing for ever.
            (Ok(Pause::Over | Pause::Waits), Ok(_)) if self.has_failed[0] => Progress::Broken,
            // What it said before has been passed on, and nothing can reach it any more.
            (Ok(_), Ok(Pause::Over)) if self.has_failed[1] => Progress::Broken,
            (Ok(there), Ok(back)) if [there, back].contains(&Pause::HadItsTurn) => Progress::HadItsTurn,
            (Ok(_), Ok(_)) => Progress::Waits,
            _ => Progress::Broken,
        }
    }

    /// What has become of it since the last look, if it is stuck.
    pub(crate) fn look(&mut self) -> Option<Stuck> {
        let arrived = [0, 1].map(|way| self.arrived(way));
        let before = std::mem::replace(&mut self.seen, arrived);
        let is_stuck = |way: usize| {
            let (from, to) = (&self.ready[way], &self.ready[1 - way]);
            arrived[way] == before[way] && (self.ways[way].holds_something() || from.readable) && !to.writable
        };
        match [0, 1].map(is_stuck) {
            [_, true] if self.has_failed[1] => Some(Stuck::Abandoned),
            [true, _] => Some(Stuck::Blocked { by_endpoint: true }),
            [_, true] => Some(Stuck::Blocked { by_endpoint: false }),
            [false, false] => None,
        }
    }

    /// Who reads slowly leaves no room for long in a socket that holds much, and makes progress all the same.
    fn arrived(&self, way: usize) -> u64 {
        let to = if way == 0 { self.endpoint.as_ref() } else { Some(&self.client) };
        let is_full = !self.ready[1 - way].writable;
        let left = to.filter(|_| is_full).and_then(|to| kernel::socket::unacknowledged(to).ok());
        self.ways[way].bytes.saturating_sub(left.unwrap_or_default())
    }

    /// Bytes that came through, towards the endpoint and back.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [self.ways[0].bytes, self.ways[1].bytes]
    }

    /// Close both sides. One that broke off is reset on the other side, too: the peer must not take it for an ordinary end.
    pub(crate) fn close(self, is_broken: bool, tools: &mut Tools) {
        if is_broken {
            for socket in self.endpoint.iter().chain([&self.client]) {
                sockets::reset_on_close(socket);
            }
        }
        self.ways.into_iter().for_each(|way| way.abandon(&mut tools.pipes));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use rustix::event::epoll;
    use rustix::event::epoll::EventData;

    use super::*;
    use crate::memory::Memory;

    fn connection(client: TcpStream) -> Conn {
        client.set_nonblocking(true).unwrap();
        let port = Arc::new(Port::new("default/web".into(), Arc::default(), Arc::default()));
        let ip = Ipv4Addr::LOCALHOST.into();
        let dial = Dial { pool: Pool::Cluster, client: ip, tried: Vec::new(), since: Instant::now() };
        Conn::new(client.into(), port, Family::V4, dial)
    }

    #[test]
    fn what_a_client_said_reaches_the_endpoint_that_answers() {
        let front = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(front.local_addr().unwrap()).unwrap();
        client.write_all(b"question").unwrap();
        let (accepted, _) = front.accept().unwrap();
        accepted.peek(&mut [0; 8]).unwrap();
        let (mut conn, mut tools) = (connection(accepted), Tools::new(Memory::default()));
        conn.read_early(&mut tools).unwrap();

        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = conn.dial(gone, 0).and_then(|()| {
            loop {
                // Until the kernel knows.
                if conn.greet(&mut tools)? {
                    return Ok(());
                }
            }
        });
        assert_eq!(refused, Err(Errno::CONNREFUSED));
        assert!(conn.dial.is_some(), "another endpoint may be tried");

        let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
        conn.dial(endpoint.local_addr().unwrap(), 0).unwrap();
        while !conn.greet(&mut tools).unwrap() {}
        assert!(conn.dial.is_none());
        assert_eq!(conn.bytes(), [8, 0]);
        let mut got = [0; 8];
        endpoint.accept().unwrap().0.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"question");
    }

    /// A connection through the forwarder, with both of its peers.
    struct Carried {
        conn: Conn,
        tools: Tools,
        epoll: OwnedFd,
        /// The client, and the endpoint.
        peers: [Option<TcpStream>; 2],
    }

    impl Carried {
        fn new() -> Carried {
            let front = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(front.local_addr().unwrap()).unwrap();
            let (mut conn, tools) = (connection(front.accept().unwrap().0), Tools::new(Memory::default()));
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            conn.dial(listener.local_addr().unwrap(), 0).unwrap();
            let endpoint = listener.accept().unwrap().0;
            conn.opened(EventFlags::OUT);
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            for (side, socket) in [(0, &conn.client), (1, conn.endpoint.as_ref().unwrap())] {
                epoll::add(&epoll, socket, EventData::new_u64(side), flags).unwrap();
            }
            Carried { conn, tools, epoll, peers: [Some(client), Some(endpoint)] }
        }

        fn peer(&self, side: usize) -> &TcpStream {
            self.peers[side].as_ref().unwrap()
        }

        fn reset(&mut self, side: usize) {
            let peer = self.peers[side].take().unwrap();
            sockets::reset_on_close(&peer);
        }

        /// Carry on as a thread does, until the connection is over or nothing happens any more.
        fn carry_on(&mut self) -> Progress {
            let quiet = rustix::event::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
            loop {
                let mut events = Vec::with_capacity(8);
                epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&quiet)).unwrap();
                for event in &events {
                    let (side, flags) = (event.data.u64(), event.flags);
                    self.conn.heard(side == 1, flags);
                }
                match self.conn.pump(&mut self.tools) {
                    Progress::Waits if events.is_empty() => return Progress::Waits,
                    Progress::Waits | Progress::HadItsTurn => {}
                    over => return over,
                }
            }
        }
    }

    /// Fill everything between one side and the other, which reads nothing.
    fn fill(carried: &mut Carried, side: usize) {
        let mut sender = carried.peer(side).try_clone().unwrap();
        sender.set_nonblocking(true).unwrap();
        let block = vec![7; 256 * 1024];
        while sender.write(&block).is_ok() || carried.conn.look().is_none() {
            assert_eq!(carried.carry_on(), Progress::Waits);
        }
    }

    #[test]
    fn a_client_that_resets_is_not_kept_for_an_endpoint_that_takes_nothing() {
        let mut carried = Carried::new();
        fill(&mut carried, 0);
        assert_eq!(carried.conn.look(), Some(Stuck::Blocked { by_endpoint: true }));
        carried.reset(0);
        assert_eq!(carried.carry_on(), Progress::Broken);
    }

    #[test]
    fn a_client_may_read_what_came_before_an_endpoint_reset_for_as_long_as_it_reads() {
        let mut carried = Carried::new();
        fill(&mut carried, 1);
        assert_eq!(carried.conn.look(), Some(Stuck::Blocked { by_endpoint: false }));
        carried.reset(1);
        assert_eq!(carried.carry_on(), Progress::Waits);
        assert_eq!(carried.conn.look(), Some(Stuck::Abandoned), "it has read nothing since the last look");
        let mut client = carried.peer(0).try_clone().unwrap();
        // So little that its socket here stays full.
        let left = |carried: &Carried| kernel::socket::unacknowledged(&carried.conn.client).unwrap();
        let (before, moved) = (left(&carried), carried.conn.bytes());
        while left(&carried) == before {
            client.read_exact(&mut vec![0; 64 * 1024]).unwrap();
        }
        assert_eq!((carried.carry_on(), carried.conn.bytes()), (Progress::Waits, moved));
        assert_eq!(carried.conn.look(), None, "it reads slowly");
        assert_eq!(carried.conn.look(), Some(Stuck::Abandoned));
        client.read_exact(&mut vec![0; 2 * 1024 * 1024]).unwrap();
        carried.carry_on();
        assert_eq!(carried.conn.look(), None, "it reads");
    }

    #[test]
    fn a_reset_after_one_side_has_ended_is_passed_on() {
        for ended in 0..2 {
            for (reset, is_known) in [(0, true), (1, true), (0, false), (1, false)] {
                let mut carried = Carried::new();
                carried.peer(ended).shutdown(std::net::Shutdown::Write).unwrap();
                if is_known {
                    assert_eq!(carried.carry_on(), Progress::Waits, "one direction is open");
                }
                carried.reset(reset);
                let case = format!("{ended} ended, {reset} was reset, known before: {is_known}");
                assert_eq!(carried.carry_on(), Progress::Broken, "{case}");
                let Carried { conn, mut tools, mut peers, .. } = carried;
                conn.close(true, &mut tools);
                let other = peers[1 - reset].take().unwrap();
                assert!(crate::patience::soon(|| matches!(other.take_error(), Ok(Some(_)))), "{case}");
            }
        }
    }
}
