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
    /// It waits for its next turn.
    pub(crate) is_queued: bool,
    /// The client's side tells when there is room again: few clients ever leave none.
    hears_of_room: bool,
    /// It has been open for a while, and is looked after if its endpoint goes silently.
    pub(crate) is_kept_alive: bool,
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
            is_queued: false,
            hears_of_room: false,
            is_kept_alive: false,
        }
    }

    /// Begin to connect to an endpoint.
    pub(crate) fn dial(&mut self, at: SocketAddr, mark: u32) -> Result<(), Errno> {
        self.endpoint = Some(sockets::dial(at, mark)?);
        Ok(())
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
        let is_hung = flags.intersects(ENDED);
        let readable = is_hung || flags.contains(EventFlags::IN);
        let open = Ready { readable: true, writable: true, is_hung: false };
        self.ready = [open, Ready { readable, is_hung, ..open }];
    }

    /// One of the sockets has something to say.
    pub(crate) fn heard(&mut self, is_endpoint: bool, flags: EventFlags) {
        let is_hung = flags.intersects(ENDED);
        let ready = &mut self.ready[usize::from(is_endpoint)];
        ready.is_hung |= is_hung;
        ready.readable |= is_hung || flags.contains(EventFlags::IN);
        ready.writable |= flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
    }

    /// Whether to listen for room on the client's side from now on.
    pub(crate) fn wants_room(&mut self) -> bool {
        !self.ready[0].writable && !std::mem::replace(&mut self.hears_of_room, true)
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
            (Ok(there), Ok(back)) if [there, back].contains(&Pause::HadItsTurn) => Progress::HadItsTurn,
            (Ok(_), Ok(_)) => Progress::Waits,
            _ => Progress::Broken,
        }
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
