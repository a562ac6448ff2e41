//! A connection of TCP: a client, the endpoint that it was led to, and what is between them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Family, Pool};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::port::Port;
use crate::sockets;
use crate::way::{Pause, Ready, Tools, Way};

/// Endpoints that are tried before the client is turned away.
pub(crate) const MOST_TRIED: usize = 4;
/// How long an endpoint may take to answer.
pub(crate) const DIAL: Duration = Duration::from_secs(2);

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
    pub(crate) ready: [Ready; 2],
    /// It waits for its next turn.
    pub(crate) is_queued: bool,
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
            ways: [Way::default(), Way::default()],
            ready: [Ready::default(); 2],
            is_queued: false,
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

    pub(crate) fn opened(&mut self) {
        self.dial = None;
        // Nothing is known of them: the first call tells.
        self.ready = [Ready { readable: true, writable: true, is_hung: false }; 2];
    }

    /// Move what can be moved, in both directions.
    pub(crate) fn pump(&mut self, tools: &mut Tools) -> Progress {
        let Some(endpoint) = &self.endpoint else { return Progress::Broken };
        let (client, endpoint) = (self.client.as_fd(), endpoint.as_fd());
        let ([up, down], [near, far]) = (&mut self.ways, &mut self.ready);
        let there = up.pump((client, near), (endpoint, far), tools);
        let back = down.pump((endpoint, far), (client, near), tools);
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
