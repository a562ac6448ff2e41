//! What becomes of connections to one address, as the kernel shows it: followed packets and recorded flows, made one
//! [`Sighting`] per connection. It knows no mode: a table of ours says by its counters why a rule refuses a packet, and
//! where there is none, only that a packet did not come through is known.

mod bounded;
mod follower;
mod reasons;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use kernel::conntrack::{Conntrack, Flow, Tuple};
pub use kernel::nft::Stopper;
use kernel::nft::{Heard, TraceError, Tracer, Wait, Wanted};
use model::{Family, Protocol, Refusal};

use follower::Follower;
use reasons::Reasons;

/// Packets that are followed in a second, for each protocol and way in.
const PER_SECOND: u64 = 100;
/// What waits is looked at so often.
const TURN: Duration = Duration::from_millis(100);

/// Which connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matching {
    /// `None` is any.
    pub protocol: Option<Protocol>,
    pub to: IpAddr,
    pub port: Option<u16>,
    pub from: Option<IpAddr>,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub protocol: Protocol,
    pub client: SocketAddr,
    pub to: SocketAddr,
    /// Where it came in, if its first packet was followed.
    pub entry: Option<Entry>,
    pub end: End,
}

/// Where a packet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// This node sends it.
    Node,
    /// It came in through the interface of this index.
    Interface(Option<u32>),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It goes to `to`, which sees `source` as its client.
    Led { to: SocketAddr, source: SocketAddr },
    /// It goes where it was sent to.
    Passed { source: SocketAddr },
    /// A rule of ours rejects it.
    Rejected(Refusal),
    /// A rule of ours drops it.
    Dropped(Refusal),
    /// It was pinned to an endpoint that is gone. The pin is deleted, and the client's next try goes elsewhere.
    StalePin,
    /// A rule of somebody else drops or rejects it.
    DroppedElsewhere { table: String, chain: String },
    /// No rule that nf_tables knows of, and it is not recorded as a connection.
    Vanished,
}

/// What the kernel could not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// How often messages were lost, because there were more than could be read.
    pub overruns: u64,
    /// Connections that were not followed, because too many were at once.
    pub crowded: u64,
}

/// Why tracing ended.
#[derive(Debug)]
pub enum Ended {
    InTime,
    /// The receiver or a [`Stopper`] asked for it.
    Stopped,
    Failed(io::Error),
}

pub struct Tracing {
    tracer: Tracer,
    follower: Follower,
    reasons: Reasons,
    flows: Option<Conntrack>,
    missed: Missed,
}

impl Tracing {
    /// Follow from now on. Nothing of it stays when this is dropped, or its process ends.
    pub fn start(matching: Matching) -> Result<Tracing, TraceError> {
        let Matching { protocol, to, port, from } = matching;
        let protocol = protocol.map(Protocol::number);
        let tracer = Tracer::open(&Wanted { to, port, protocol, from, per_second: PER_SECOND })?;
        let follower = Follower::new(matching, tracer.table());
        // Without it, connections that began before are not recognised.
        let flows = Conntrack::open().ok();
        let reasons = Reasons::new(Family::of(to));
        Ok(Tracing { tracer, follower, reasons, flows, missed: Missed::default() })
    }

    pub fn stopper(&self) -> Stopper {
        self.tracer.stopper()
    }

    /// Tell what is seen until that time, or until `tell` says that it is enough.
    pub fn run(mut self, until: Instant, tell: &mut dyn FnMut(Sighting) -> bool) -> (Ended, Missed) {
        let ended = loop {
            let now = Instant::now();
            if now >= until {
                break Ended::InTime;
            }
            let mut seen = Vec::new();
            match self.turn(now, until, &mut seen) {
                Ok(Wait::Stopped) => break Ended::Stopped,
                Ok(Wait::Lost) => self.missed.overruns += 1,
                Ok(Wait::Heard | Wait::Elapsed) => {}
                Err(error) => break Ended::Failed(error),
            }
            // By the time before it listened: what had come meanwhile has been heard, however late this thread is.
            self.expire(now, &mut seen);
            if !seen.into_iter().all(&mut *tell) {
                break Ended::Stopped;
            }
        };
        if !matches!(ended, Ended::Stopped) {
            let mut seen = Vec::new();
            self.expire(Instant::now() + follower::PATIENCE, &mut seen);
            let _ = seen.into_iter().all(tell);
        }
        self.missed.crowded = self.follower.crowded();
        (ended, self.missed)
    }

    fn turn(&mut self, now: Instant, until: Instant, seen: &mut Vec<Sighting>) -> io::Result<Wait> {
        let Tracing { tracer, follower, reasons, .. } = self;
        tracer.wait(until.min(now + TURN), &mut |heard| match heard {
            Heard::Step(step) => seen.extend(follower.step(&step, now, reasons)),
            Heard::Flow(flow) => seen.extend(follower.flow(&flow, now)),
        })
    }

    /// What was not heard of again: it may belong to a connection that began before.
    fn expire(&mut self, now: Instant, seen: &mut Vec<Sighting>) {
        for vanished in self.follower.expire(now) {
            let flows = self.flows.as_mut().filter(|_| vanished.end == End::Vanished);
            let recorded = flows.and_then(|flows| find(flows, &vanished));
            seen.push(match recorded {
                Some(flow) => Sighting { end: follower::end_of(&flow), ..vanished },
                None => vanished,
            });
        }
    }
}

fn find(flows: &mut Conntrack, seen: &Sighting) -> Option<Flow> {
    let original = Tuple::new((seen.client.ip(), seen.client.port()), (seen.to.ip(), seen.to.port()));
    flows.find_by_original(seen.protocol.number(), &original).ok().flatten()
}
