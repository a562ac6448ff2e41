//! The sync loop: one plain thread that owns the cluster state and the data plane. Everything else talks to
//! it by [`Event`]s, because a netlink `send` blocks for as long as the kernel commits.

mod answering;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::apiserver::Recorder;
use cluster::manifests::Consequence;
use cluster::{ChangeCount, ClusterPlanner, ClusterState, Kind, Update, observe_node};
use config::{Options, Source};
use dataplane::pins::FoundPins;
use dataplane::{Backend, CheckPace, Drift, PinSweep, Reconciler, Setup, Synced, TellDrift};
use model::{Family, NodeView, Planner, ServiceKey};

use crate::flows::StaleWork;
use crate::health::{Awaited, Health};
use crate::http::CheckReporter;
use crate::identity::Identity;
use crate::inbox::Receiver;
use crate::lane::Lane;
use crate::missed_prefixes::MissedPrefixes;
use crate::node_setup;
use crate::own_node::OwnNode;
use crate::questions::Question;
use crate::start_line;
use answering::TIDY_AFTER;
use telemetry::metrics::Metrics;

/// What the loop reacts to.
#[derive(Debug)]
pub(crate) enum Event {
    /// The source has news.
    Update(Update),
    /// Another process changed our rules, or may have.
    Drift(Drift),
    /// Pins of clients that must move.
    PinsFound(FoundPins),
    /// The addresses of this node, as they are now.
    Addresses(Vec<IpAddr>),
    /// Other options count from now on.
    Reconfigure(Box<Options>),
    /// Answered after the next sync.
    Question(Question),
    Stop,
}

/// What waits for the first sync.
pub(crate) struct FirstSync {
    pub(crate) remove_leftovers: Box<dyn FnOnce() + Send>,
    pub(crate) tell_drift: TellDrift,
}

/// Whom the loop tells what it did.
pub(crate) struct Outlets {
    pub(crate) health: Health,
    pub(crate) flows: Sender<StaleWork>,
    pub(crate) pins: Sender<PinSweep>,
    pub(crate) checks: CheckReporter,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: Recorder,
}

pub(crate) struct SyncLoop {
    options: Options,
    state: ClusterState,
    identity: Identity,
    node: NodeView,
    addresses: Vec<IpAddr>,
    reconciler: Reconciler<Box<dyn Backend + Send>>,
    setup: Setup,
    checks: CheckPace,
    lanes: [Lane; 2],
    /// Pins that are still to be deleted.
    doomed: VecDeque<FoundPins>,
    questions: Vec<Question>,
    /// When the last one was, until the memory it took is given back.
    answered: Option<Instant>,
    outlets: Outlets,
    /// Until it is done.
    first_sync: Option<FirstSync>,
    started: Instant,
    /// Milliseconds since the epoch: what was triggered before is no measure of this agent.
    started_ms: i64,
    /// The first lists are in, and enough is known of this node.
    is_informed: bool,
    /// What the node is was logged.
    is_told: bool,
    /// Every plan may be another now.
    replan: bool,
    missed_prefixes: MissedPrefixes,
    /// Whether to look at them again: an address or a prefix may be another now.
    look_at_prefixes: bool,
}

/// An apiserver is waited for to tell the node's addresses; manifests say all they have to say at once.
fn awaits_addresses(options: &Options) -> bool {
    matches!(options.source, Source::Apiserver(_))
}

impl SyncLoop {
    pub(crate) fn new(
        options: Options,
        setup: Setup,
        mut backend: Box<dyn Backend + Send>,
        addresses: Vec<IpAddr>,
        outlets: Outlets,
        first_sync: FirstSync,
    ) -> SyncLoop {
        let own_node = OwnNode::new(&options.node_name, &options.detect_local, awaits_addresses(&options));
        SyncLoop {
            identity: Identity::new(own_node),
            node: observe_node(None, &options.node_name, &addresses),
            state: ClusterState::default(),
            addresses,
            setup,
            checks: CheckPace::new(backend.looks(options.sync_period), Instant::now()),
            reconciler: Reconciler::new(backend),
            lanes: Family::BOTH.map(|family| {
                let metrics = outlets.metrics.sync().of(family).clone();
                Lane::new(family, options.min_sync_period, metrics, outlets.recorder.clone())
            }),
            doomed: VecDeque::new(),
            questions: Vec::new(),
            answered: None,
            outlets,
            first_sync: Some(first_sync),
            started: Instant::now(),
            started_ms: now_ms(),
            is_informed: false,
            is_told: false,
            replan: false,
            missed_prefixes: MissedPrefixes::default(),
            look_at_prefixes: true,
            options,
        }
    }

    /// Until told to stop. The rules stay in place then.
    pub(crate) fn run(mut self, events: &Receiver) {
        loop {
            match events.recv_timeout(self.wait()) {
                Ok(events) => {
                    if !events.into_iter().all(|event| self.absorb(event)) {
                        return;
                    }
                    self.collect();
                }
                Err(RecvTimeoutError::Timeout) if !self.is_informed || self.identity.is_changing() => {
                    self.collect();
                }
                // What waited for its pacing may be written now, or a look at the kernel is due.
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.check();
            self.sync();
            self.forget_pins();
            self.answer_questions();
            self.tidy_up();
        }
    }

    /// Until the first family may be written, or until the next look at the kernel.
    fn wait(&self) -> Duration {
        let now = Instant::now();
        let waits =
            self.lanes.iter().filter(|lane| self.has_work(lane)).map(|lane| lane.wait(&self.reconciler, now));
        let waits = waits.chain(self.identity.next_look(now)).chain([self.checks.wait(now)]);
        let waits = waits.chain(self.doomed.front().map(|found| found.wait(now)));
        let waits = waits.chain(self.answered.map(|at| (at + TIDY_AFTER).saturating_duration_since(now)));
        waits.min().unwrap_or_default()
    }

    /// Nothing is programmed before everything there is to know at the start is known.
    fn has_work(&self, lane: &Lane) -> bool {
        self.is_informed && lane.has_work(&self.reconciler)
    }

    /// Take one event in; `false` ends the loop.
    fn absorb(&mut self, event: Event) -> bool {
        match event {
            Event::Update(Update::Problems { new, solved }) => {
                self.outlets.health.note_problems(&new, &solved);
                for problem in new {
                    match problem.consequence {
                        Some(Consequence::RestIsUsed) => tracing::warn!("{problem}"),
                        _ => tracing::error!("{problem}"),
                    }
                }
                solved.iter().for_each(|problem| tracing::info!("Resolved: {}", problem.place()));
            }
            Event::Update(update) => {
                if matches!(update, Update::Retain(Kind::Node, _)) {
                    self.identity.nodes_listed();
                }
                self.state.update(update);
            }
            Event::Drift(Drift { family, why }) => {
                let lanes =
                    self.lanes.iter_mut().filter(|lane| family.is_none_or(|family| family == lane.family));
                lanes.for_each(|lane| lane.distrust(&mut self.reconciler, &why));
            }
            Event::PinsFound(found) => self.doomed.push_back(found),
            Event::Addresses(addresses) => self.addresses = addresses,
            Event::Reconfigure(options) => self.reconfigure(*options),
            Event::Question(question) => self.questions.push(question),
            Event::Stop => return false,
        }
        true
    }

    /// Take other options on. The rules in the kernel stay active until they are rewritten, in one transaction.
    fn reconfigure(&mut self, options: Options) {
        let old = std::mem::replace(&mut self.options, options);
        let new = &self.options;
        self.outlets.health.set_sync_period(new.sync_period);
        if (&old.node_name, &old.detect_local) != (&new.node_name, &new.detect_local) {
            self.identity.reconfigure(&new.node_name, &new.detect_local, awaits_addresses(new));
        }
        self.setup.masquerade_mark = new.masquerade_mark;
        self.setup.drop_invalid = node_setup::drops_invalid(new);
        self.setup.of_mode = new.of_mode.clone();
        self.reconciler.configure(&self.setup);
        let looks = self.reconciler.backend().looks(new.sync_period);
        self.checks = CheckPace::new(looks, Instant::now());
        self.replan |= old.settings != new.settings;
        self.look_at_prefixes |= old.nodeport_addresses != new.nodeport_addresses;
        let on_node = |options: &Options| (options.nodeport_addresses.clone(), options.nodeports_on_loopback);
        for lane in &mut self.lanes {
            lane.set_min_sync_period(new.min_sync_period);
            lane.mark(&[], on_node(&old) != on_node(new));
        }
    }

    /// Hand what became dirty to both families.
    fn collect(&mut self) {
        let dirty = self.state.take_dirty();
        self.identity.observe(|name| self.state.node(name), Instant::now());
        self.tell_eligibility();
        self.is_informed = self.state.is_complete() && self.identity.is_known(Instant::now());
        self.outlets.health.set_awaited(match self.is_informed {
            true if self.identity.is_changing() => Some(Awaited::ChangedNode),
            true => None,
            false if self.state.is_complete() => Some(Awaited::Node),
            false => Some(Awaited::Lists),
        });
        self.detect_local();
        let mut node = {
            let own = self.identity.current();
            observe_node(own.facts(), own.name(), &self.addresses)
        };
        if let Some(ip) = self.options.bind_address {
            node.primary[Family::of(ip).index()] = Some(ip);
        }
        // Policies, hints and source ranges look at these, so that any plan may change.
        let NodeView { name, zone, primary, .. } = &self.node;
        let is_moved = (name, zone, primary) != (&node.name, &node.zone, &node.primary);
        let all_move = std::mem::take(&mut self.replan) || is_moved;
        let everything: Vec<ServiceKey> = match all_move {
            true => self.state.services().cloned().collect(),
            false => Vec::new(),
        };
        for lane in &mut self.lanes {
            lane.mark(&dirty.services, dirty.node || node != self.node);
            lane.mark(&everything, false);
            lane.note_triggers(&dirty.triggers, self.started_ms);
        }
        self.look_at_prefixes |= node.addresses != self.node.addresses;
        self.node = node;
        self.tell_start();
        self.warn_of_missed_prefixes();
        self.warn_of_nothing(!dirty.services.is_empty());
        self.outlets.checks.mark(&dirty.services, &self.state);
        self.outlets.checks.mark(&everything, &self.state);
        for lane in &self.lanes {
            // Whatever holds work back, it waits: a door that shuts must not stay unnoticed.
            if lane.has_work(&self.reconciler) {
                self.outlets.health.queued(lane.family);
            }
            if self.has_work(lane) {
                lane.note_queued();
            }
        }
        self.count_changes();
    }

    /// Load balancers see it in `/healthz`, people in the log.
    fn tell_eligibility(&mut self) {
        let own = self.identity.current();
        let is_leaving = !own.is_eligible();
        if self.outlets.health.set_leaving(is_leaving) {
            let node = own.name();
            match is_leaving {
                true => {
                    tracing::info!(%node, "Node is gone or being removed; /healthz now answers 503")
                }
                false => tracing::info!(%node, "Node is no longer being removed; /healthz answers 200 again"),
            }
        }
    }

    /// What traffic of both families follows, and what it does not yet.
    fn count_changes(&self) {
        let followed = self.lanes.iter().map(Lane::followed).reduce(least).unwrap_or_default();
        self.outlets.metrics.changes().set(self.state.changes(), followed);
    }

    /// Recognise local traffic as the identity in force says, such as by pod CIDRs that changed.
    fn detect_local(&mut self) {
        let Some(detector) = self.identity.current().detector() else { return };
        self.setup.detector = detector;
        if self.reconciler.configure(&self.setup) {
            let detector = &self.setup.detector;
            tracing::info!(?detector, "Changed the detection of local traffic");
        }
    }

    /// The periodic check, if it is due: in case a notification never came, or where none ever comes.
    fn check(&mut self) {
        if !self.checks.wait(Instant::now()).is_zero() {
            return;
        }
        let mut is_damaged = false;
        for lane in &mut self.lanes {
            if self.reconciler.check(lane.family) {
                is_damaged = true;
                lane.note_damage(self.reconciler.backend().damage_found());
                lane.note_queued();
                self.outlets.health.queued(lane.family);
            }
        }
        self.checks.done(Instant::now(), is_damaged);
    }

    /// Write the families that have work and may be written now.
    fn sync(&mut self) {
        for family in Family::BOTH {
            let lane = &self.lanes[family.index()];
            if !self.has_work(lane) || !lane.wait(&self.reconciler, Instant::now()).is_zero() {
                continue;
            }
            let planner = planner(&self.state, &self.node, &self.options);
            let lane = &mut self.lanes[family.index()];
            if let Some(synced) = lane.sync(&mut self.reconciler, &planner) {
                self.finish(family, synced);
            }
        }
        if self.first_sync.is_some() && self.outlets.health.is_ready() {
            self.first_sync_done();
        }
    }

    fn finish(&mut self, family: Family, synced: Synced) {
        let lane = &mut self.lanes[family.index()];
        if !lane.is_behind() {
            lane.follows(self.state.changes());
        }
        self.count_changes();
        let lane = &self.lanes[family.index()];
        self.outlets.health.updated(family);
        let selection = &self.options.nodeport_addresses;
        let waits = |service: &ServiceKey| lane.waits_for(service);
        self.outlets.checks.synced(family, &self.state, &self.node, selection, waits);
        if !synced.stale.is_empty() {
            let node_ips =
                self.reconciler.node(family).map(|node| node.nodeport_ips.clone()).unwrap_or_default();
            // The cleaner ends only with the process.
            let _ = self.outlets.flows.send(StaleWork { family, stale: synced.stale, node_ips });
        }
        for sweep in synced.sweeps {
            // It ends only with the process, too.
            let _ = self.outlets.pins.send(sweep);
        }
        if synced.full {
            kernel::memory::give_back();
        }
    }

    /// Node ports that cannot be reached look like a broken network.
    fn warn_of_missed_prefixes(&mut self) {
        if !std::mem::take(&mut self.look_at_prefixes) {
            return;
        }
        for family in Family::BOTH {
            let missed = model::missed_prefixes(&self.node, &self.options.nodeport_addresses, family);
            self.look_at_prefixes |= !self.missed_prefixes.note(family, &missed, Instant::now());
        }
    }

    /// Delete some of the pins that were found: changes that wait come before the rest.
    fn forget_pins(&mut self) {
        let Some(found) = self.doomed.front_mut().filter(|found| found.wait(Instant::now()).is_zero()) else {
            return;
        };
        let family = found.sweep.family;
        let lane = &mut self.lanes[family.index()];
        let some = found.take_some();
        match self.reconciler.forget_pins(family, &some) {
            Ok(count) => tracing::debug!(%family, count, "Moved clients off removed endpoints"),
            Err(error) => {
                lane.note_left_behind();
                found.failed(some, &error, Instant::now());
            }
        }
        if found.is_empty() {
            let waiting = self.reconciler.swept(family, &found.sweep);
            lane.mark(&waiting, false);
            self.doomed.pop_front();
        }
    }

    /// Once, when the last service of the manifests goes while the agent runs.
    fn warn_of_nothing(&self, has_changes: bool) {
        let Source::Manifests(path) = &self.options.source else { return };
        if has_changes && self.first_sync.is_none() && self.state.counts().services == 0 {
            tracing::warn!(
                manifests = %path.display(),
                "The manifests no longer contain a Service; removing all service rules"
            );
        }
    }

    /// Once, as soon as the node is known: rules that cannot be written are then easier to understand.
    fn tell_start(&mut self) {
        if self.is_informed && !std::mem::replace(&mut self.is_told, true) {
            let planner = planner(&self.state, &self.node, &self.options);
            let plans = Family::BOTH.map(|family| planner.node(family));
            start_line::tell(&self.options, &self.node, &self.setup.detector, plans);
        }
    }

    fn first_sync_done(&mut self) {
        let counts = self.state.counts();
        tracing::info!(
            services = counts.services,
            slices = counts.slices,
            millis = self.started.elapsed().as_millis() as u64,
            "All rules are in place"
        );
        if let (0, Source::Manifests(path)) = (counts.services, &self.options.source) {
            tracing::warn!(
                manifests = %path.display(),
                "The manifests contain no Service; removing rules of an earlier run. Is this the right path?"
            );
        }
        let own = self.identity.current().name();
        if self.state.node(own).is_none() {
            tracing::info!(
                node = %own,
                "No Node object has this node's name; using the kernel's addresses, and only endpoints with this \
                 nodeName count as local. See --hostname-override"
            );
        }
        let Some(FirstSync { remove_leftovers, tell_drift }) = self.first_sync.take() else { return };
        remove_leftovers();
        self.reconciler.backend().watch(tell_drift);
        kernel::memory::forget_start();
    }
}

fn planner<'a>(state: &'a ClusterState, node: &'a NodeView, options: &'a Options) -> ClusterPlanner<'a> {
    ClusterPlanner {
        state,
        node,
        settings: &options.settings,
        nodeport_addresses: &options.nodeport_addresses,
        nodeports_on_loopback: options.nodeports_on_loopback,
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn least(one: ChangeCount, other: ChangeCount) -> ChangeCount {
    ChangeCount { services: one.services.min(other.services), slices: one.slices.min(other.slices) }
}
