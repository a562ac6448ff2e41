//! What the agent knows of a connection that was seen: whose the address is, what the client counts as, and what the plan
//! says. The sync thread is asked once per client and address in a while, and never for many at once.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use dataplane::trace::{Entry, Sighting};
use kernel::link::Links;
use model::{ClientKind, Fate, Protocol, ServiceKey};

use commands::targets::Target;

use crate::questions::{Asker, ExplainRequest, Sender};

/// What was known so long ago may be otherwise.
const FRESH: Duration = Duration::from_secs(5);
const MOST_KNOWN: usize = 1024;
/// The sync thread has other work: more questions in a second are not asked.
const ASKED_PER_SECOND: u32 = 50;

#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) service: Option<ServiceKey>,
    pub(super) kind: Option<ClientKind>,
    pub(super) fate: Option<Fate>,
    /// Where it may be led to, if that is one place.
    pub(super) only_endpoint: Option<SocketAddr>,
}

pub(super) struct Context {
    sync_thread: Asker,
    known: HashMap<(Protocol, SocketAddr, IpAddr), (Instant, Known)>,
    /// The second that is counted, and the questions in it.
    asked: (Instant, u32),
    interfaces: HashMap<u32, String>,
}

impl Context {
    pub(super) fn new(sync_thread: Asker) -> Context {
        let asked = (Instant::now(), 0);
        Context { sync_thread, known: HashMap::new(), asked, interfaces: HashMap::new() }
    }

    pub(super) async fn known(&mut self, seen: &Sighting) -> Known {
        let key = (seen.protocol, seen.to, seen.client.ip());
        let now = Instant::now();
        if let Some((at, known)) = self.known.get(&key)
            && now < *at + FRESH
        {
            return known.clone();
        }
        if !self.may_ask(now) {
            return Known::default();
        }
        let Some(known) = self.ask(seen).await else { return Known::default() };
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(key, (now, known.clone()));
        known
    }

    fn may_ask(&mut self, now: Instant) -> bool {
        let (second, count) = &mut self.asked;
        if now >= *second + Duration::from_secs(1) {
            (*second, *count) = (now, 0);
        }
        *count += 1;
        *count <= ASKED_PER_SECOND
    }

    async fn ask(&mut self, seen: &Sighting) -> Option<Known> {
        let ip = seen.client.ip();
        let interface = match seen.entry {
            Some(Entry::Node) => None,
            Some(Entry::Interface(Some(index))) => self.interface(index).await,
            _ => crate::http::interface_toward(ip).await,
        };
        let request = ExplainRequest {
            target: Target::At(seen.protocol, seen.to),
            from: Some(Sender { ip, interface }),
            written: [true; 2],
            reads_kernel: false,
            most_endpoints: 1,
        };
        let explained = self.sync_thread.explain(request).await.ok()?.each.pop()?.explained;
        let answer = explained.answers.first();
        Some(Known {
            service: explained.owner.map(|owner| owner.service),
            kind: answer.map(|answer| answer.client.kind()),
            fate: answer.map(|answer| answer.fate),
            only_endpoint: answer
                .filter(|answer| answer.endpoint_count == 1)
                .and_then(|answer| answer.endpoints.first().copied()),
        })
    }

    /// A node may have thousands, and the kernel lists them only while nobody changes one: not for the event loop.
    async fn interface(&mut self, index: u32) -> Option<String> {
        if !self.interfaces.contains_key(&index) {
            let listed = || Links::open().and_then(|mut links| links.links()).unwrap_or_default();
            let links = tokio::task::spawn_blocking(listed).await.unwrap_or_default();
            self.interfaces = links.into_iter().map(|link| (link.index, link.name)).collect();
        }
        self.interfaces.get(&index).cloned()
    }
}
