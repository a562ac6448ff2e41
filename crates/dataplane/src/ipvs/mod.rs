//! Mode ipvs: IPVS picks the endpoint of a connection, and the flat table of mode nftables does everything else.
//! `docs/ipvs.md` describes it; no external program is run.

mod audit;
mod carry_out;
mod draining;
mod ground;
mod inspect;
mod leftovers;
mod listed;
mod mode;
mod pins;
mod servers;
mod single;
mod statistics;
mod steps;
mod sysctls;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use kernel::ipvs::{self, DumpedServer};
use kernel::nft;
use model::{
    Change, Family, IpvsSettings, MOST_OF_IPVS, NodePlan, Scheduler, ServiceKey, ServicePlan, merged_ports,
    ports_of,
};

use crate::backend::{Backend, Committed, Setup, SyncError};
use crate::check_pace::Looks;
use crate::drift::TellDrift;
use crate::inspection::{Inspected, Look};
use crate::nftables::Nftables;
use audit::{Audit, BETWEEN_SHARES};
use carry_out::{LeftOut, carry_out};
use draining::Draining;
use servers::{OURS, Offers, add_plan, add_port, sizes};
use single::{route_changes, single_ips};
use steps::{Planning, Steps};
use table::local_mark;

pub(crate) use ground::has_device;
pub use ground::{Ground, WayIn};
pub(crate) use mode::MODE;

const NAME: &str = "ipvs";
/// Another kube-proxy has the addresses of services on it, we have nothing. Other software knows it by name.
pub const DEVICE: &str = "kube-ipvs0";
/// Ports that Kubernetes hands out as node ports unless it is told otherwise.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// What the mode holds now, for its metrics.
#[derive(Debug, Default)]
struct Held {
    servers: [AtomicUsize; 2],
    destinations: [AtomicUsize; 2],
    draining: [AtomicUsize; 2],
    /// Only where traffic of services is asked for.
    names: OnceLock<statistics::Names>,
}

impl Held {
    /// More and less of what services have.
    fn add(&self, family: Family, offers: &Offers<'_>) {
        let [servers, destinations] = sizes(offers);
        self.servers[family.index()].fetch_add(servers, Ordering::Relaxed);
        self.destinations[family.index()].fetch_add(destinations, Ordering::Relaxed);
    }

    /// Servers and their destinations.
    fn total(&self, family: Family) -> usize {
        let of = |counts: &[AtomicUsize; 2]| counts[family.index()].load(Ordering::Relaxed);
        of(&self.servers) + of(&self.destinations)
    }

    fn remove(&self, family: Family, offers: &Offers<'_>) {
        let [servers, destinations] = sizes(offers);
        let less = |count: &AtomicUsize, by: usize| {
            count.store(count.load(Ordering::Relaxed).saturating_sub(by), Ordering::Relaxed);
        };
        less(&self.servers[family.index()], servers);
        less(&self.destinations[family.index()], destinations);
    }
}

struct FamilyState {
    draining: Draining,
    audit: Audit,
    /// Cluster IPs outside every ServiceCIDR, which have a route of their own, and how many services have each.
    single: HashMap<IpAddr, u32>,
    left_out: LeftOut,
    /// What the rules in force answer in place of IPVS: such clients never get there.
    answered: HashSet<ipvs::VirtualServer>,
    /// Of its virtual servers.
    scheduler: Scheduler,
    /// The routing of the node leads packets to IPVS. Not before the first service: a node may have no IPv6.
    is_laid: bool,
    fails_to_collect: bool,
    /// The rules in force are those of this mode. After a restart only virtual servers tell.
    is_written: bool,
}

/// The data plane over real or simulated kernels.
pub struct Ipvs<N, V, G> {
    rules: Nftables<N>,
    servers: V,
    ground: G,
    options: IpvsSettings,
    /// A scheduler that was asked for and that the kernel does not have.
    refused: Option<Scheduler>,
    local_mark: u32,
    families: [FamilyState; 2],
    /// How long a round of looks at all virtual servers takes.
    period: Duration,
    sysctls: Option<sysctls::Sysctls>,
    held: Arc<Held>,
}

impl<N: nft::Transport, V: ipvs::Transport, G: Ground> Ipvs<N, V, G> {
    pub fn new(rules: N, servers: V, ground: G, setup: &Setup) -> Ipvs<N, V, G> {
        let local_mark = local_mark(setup.masquerade_mark);
        let rules = Nftables::new(rules, &setup.detector, setup.masquerade_mark).beside_ipvs();
        let state = || FamilyState {
            draining: Draining::default(),
            audit: Audit::default(),
            single: HashMap::new(),
            left_out: LeftOut::default(),
            answered: HashSet::new(),
            scheduler: setup.of_mode.ipvs.scheduler,
            is_laid: false,
            fails_to_collect: false,
            is_written: false,
        };
        Ipvs {
            rules,
            servers,
            ground,
            options: setup.of_mode.ipvs.clone(),
            refused: None,
            local_mark,
            families: [state(), state()],
            period: Duration::from_secs(30),
            sysctls: None,
            held: Arc::default(),
        }
    }

    /// Whether refused packets of every service port are counted, from the next rewrite on. IPVS counts the others.
    pub fn count_refused(mut self, on: bool) -> Ipvs<N, V, G> {
        self.rules = self.rules.count_refused(on);
        self
    }

    /// The virtual servers, for tests that look from outside.
    pub fn servers(&mut self) -> &mut V {
        &mut self.servers
    }

    pub fn ground(&mut self) -> &mut G {
        &mut self.ground
    }

    pub fn rules(&mut self) -> &mut N {
        self.rules.transport()
    }

    fn way_in(&self, family: Family, node: &NodePlan) -> WayIn {
        let single = self.families[family.index()].single.keys().copied().map(IpNet::from);
        let prefixes = node.service_cidrs.iter().copied().chain(single).collect();
        WayIn { prefixes, local_mark: self.local_mark, source: node.primary }
    }

    fn lay(&mut self, family: Family, node: &NodePlan) -> Result<(), SyncError> {
        let laid = self.ground.lay(family, &self.way_in(family, node));
        self.families[family.index()].is_laid = laid.is_ok();
        laid
    }

    /// Compare what the kernel has with what is wanted, server by server.
    fn rewrite_steps(
        &mut self,
        family: Family,
        wanted: &Offers<'_>,
        node: &NodePlan,
    ) -> Result<Steps, SyncError> {
        let foreign = self.ground.foreign_addresses(family)?;
        let found = self.servers.services()?;
        let state = &mut self.families[family.index()];
        state.draining.begin_again();
        let mut planning =
            Planning { draining: &mut state.draining, options: &self.options, now: Instant::now() };
        let mut steps = Steps::default();
        let mut there: HashSet<ipvs::VirtualServer> = HashSet::new();
        let mut is_written = state.is_written;
        for found in found.iter().filter(|found| Family::of(found.server.address) == family) {
            is_written |= found.settings.flags & OURS != 0;
            let offer = wanted.get(&found.server);
            let is_wanted = offer.is_some_and(|offer| offer.pool.is_some());
            if !is_wanted && !is_removable(found, &foreign, node, &self.options) {
                continue;
            }
            if !there.insert(found.server) {
                continue;
            }
            let destinations = self.servers.destinations(found.server)?;
            planning.adopt(&mut steps, found, destinations, offer);
        }
        for (server, offer) in wanted.iter().filter(|(server, _)| !there.contains(server)) {
            let Some(pool) = offer.pool else { continue };
            // Rules that another mode left serve its clients until the commit; ours do not, unless they answer them.
            let waits = is_written && offer.needs_rules && !state.answered.contains(server);
            let batch = if waits { &mut steps.after } else { &mut steps.before };
            planning.serve(batch, *server, offer, pool);
        }
        state.draining.all_listed();
        Ok(steps)
    }

    /// Tell the counters of services whose each server is.
    fn name_all(&self, family: Family, plans: &HashMap<ServiceKey, ServicePlan>, node: &NodePlan) {
        let Some(names) = self.held.names.get() else { return };
        names.clear(family);
        for (service, plan) in plans {
            plan.ports.iter().for_each(|port| names.add(service, port, &node.nodeport_ips));
        }
    }

    /// Remove drained destinations from the next few servers. A failure is logged once, until it succeeds.
    fn collect_next(&mut self, family: Family) {
        let due = self.families[family.index()].draining.next();
        let collected = self.collect(family, due);
        let state = &mut self.families[family.index()];
        let was_failing = std::mem::replace(&mut state.fails_to_collect, collected.is_err());
        if let Some(error) = collected.err().filter(|_| !was_failing) {
            tracing::error!(%family, %error, "Failed to remove destinations that have drained; retrying every second");
        }
    }

    fn carry_out(&mut self, family: Family, batch: &ipvs::Batch) -> Result<(), SyncError> {
        carry_out(&mut self.servers, batch, &mut self.families[family.index()].left_out)
    }

    /// What has drained already of servers that have just been left. The rest is for later, and so is a failure.
    fn collect_now(&mut self, family: Family, mut left: Vec<ipvs::VirtualServer>) {
        left.truncate(draining::AT_ONCE);
        if let Err(error) = self.collect(family, left) {
            tracing::debug!(%family, %error, "Failed to remove what has drained; retrying");
        }
    }

    /// What has drained of these servers goes.
    fn collect(&mut self, family: Family, due: Vec<ipvs::VirtualServer>) -> Result<(), SyncError> {
        let FamilyState { draining, left_out, .. } = &mut self.families[family.index()];
        let (mut batch, mut ended) = (ipvs::Batch::new(), Vec::new());
        let mut read = 0;
        for server in due {
            if read >= draining::READ_AT_ONCE {
                break;
            }
            draining.looks_at(server);
            let found = self.servers.destinations(server)?;
            read += found.len();
            ended.push((server, draining.ended(server, &found, Instant::now(), &mut batch)));
        }
        carry_out(&mut self.servers, &batch, left_out)?;
        ended.iter().for_each(|(server, destinations)| draining.forget(*server, destinations));
        self.held.draining[family.index()].store(draining.len(), Ordering::Relaxed);
        Ok(())
    }

    /// The one that is wanted if the kernel has it, else the one in use.
    fn usable_scheduler(&mut self, wanted: Scheduler) -> Scheduler {
        if wanted == self.options.scheduler || self.refused == Some(wanted) {
            return self.options.scheduler;
        }
        self.refused = None;
        match mode::check_scheduler(&mut self.servers, wanted) {
            Ok(()) => wanted,
            Err(error) => {
                self.refused = Some(wanted);
                let kept = self.options.scheduler.name();
                tracing::error!(%error, kept, "Failed to change the scheduler of IPVS; keeping the previous one");
                self.options.scheduler
            }
        }
    }

    fn keep_sysctls(&mut self) {
        if let Some(sysctls) = &mut self.sysctls {
            sysctls.keep(self.options.strict_arp, Instant::now());
        }
    }

    fn set_timeouts(&mut self) {
        let seconds = |duration: Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        let timeouts = self.options.timeouts;
        let timeouts = ipvs::Timeouts {
            tcp: seconds(timeouts.tcp),
            tcp_fin: seconds(timeouts.tcp_fin),
            udp: seconds(timeouts.udp),
        };
        if timeouts == ipvs::Timeouts::default() {
            return;
        }
        if let Err(error) = self.servers.set_timeouts(timeouts) {
            tracing::error!(%error, "Failed to set the timeouts of IPVS; the previous ones remain active");
        }
    }
}

impl<N: nft::Transport, V: ipvs::Transport, G: Ground> Backend for Ipvs<N, V, G> {
    fn base(&self) -> Option<&dyn Backend> {
        Some(&self.rules)
    }

    fn base_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut self.rules)
    }

    fn rewrite(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> Result<Committed, SyncError> {
        self.keep_sysctls();
        let state = &mut self.families[family.index()];
        state.single = single_ips(plans.values(), node);
        state.audit.begin_again(plans.keys());
        state.is_laid |= !plans.is_empty();
        if state.is_laid {
            self.lay(family, node)?;
        }
        self.rules.set_on_node(family, &node.nodeport_ips);
        self.families[family.index()].left_out.clear();
        self.name_all(family, plans, node);
        let mut wanted = Offers::new();
        plans.values().for_each(|plan| add_plan(&mut wanted, plan, &node.nodeport_ips));
        let steps = self.rewrite_steps(family, &wanted, node)?;
        self.carry_out(family, &steps.before)?;
        let committed = self.rules.rewrite(family, plans, node)?;
        let state = &mut self.families[family.index()];
        state.is_written = true;
        state.answered = answered(&wanted).collect();
        self.carry_out(family, &steps.after)?;
        self.collect_now(family, steps.left);
        if self.families[family.index()].is_laid {
            self.ground.keep_only(family, &self.way_in(family, node))?;
        }
        let [servers, destinations] = sizes(&wanted);
        self.held.servers[family.index()].store(servers, Ordering::Relaxed);
        self.held.destinations[family.index()].store(destinations, Ordering::Relaxed);
        Ok(committed)
    }

    fn apply(
        &mut self,
        family: Family,
        changes: &[Change<'_>],
        node: (&NodePlan, &NodePlan),
    ) -> Result<Committed, SyncError> {
        let state = &mut self.families[family.index()];
        state.audit.note(changes);
        let (mut old, mut new) = (Offers::new(), Offers::new());
        for change in changes {
            let changed = merged_ports(ports_of(change.old), ports_of(change.new));
            for (before, after) in changed.filter(|(before, after)| before != after) {
                before.into_iter().for_each(|port| add_port(&mut old, port, &node.0.nodeport_ips));
                after.into_iter().for_each(|port| add_port(&mut new, port, &node.1.nodeport_ips));
            }
        }
        if let Some(names) = self.held.names.get() {
            names.change(changes, node);
        }
        let mut planning =
            Planning { draining: &mut state.draining, options: &self.options, now: Instant::now() };
        let steps = planning.change(&old, &new);
        let (come, gone) = route_changes(&mut state.single, changes, node.1);
        match state.is_laid {
            true => self.ground.add(&come)?,
            false if changes.iter().any(|change| change.new.is_some()) => self.lay(family, node.1)?,
            false => {}
        }
        self.carry_out(family, &steps.before)?;
        let committed = self.rules.apply(family, changes, node)?;
        let state = &mut self.families[family.index()];
        old.keys().for_each(|server| {
            state.answered.remove(server);
        });
        state.answered.extend(answered(&new));
        self.carry_out(family, &steps.after)?;
        self.collect_now(family, steps.left);
        self.ground.remove(&gone)?;
        self.held.remove(family, &old);
        self.held.add(family, &new);
        Ok(committed)
    }

    /// A virtual server belongs to an address: with another set of these, every node port has other servers. Routes are
    /// those of the ServiceCIDRs, with the primary address as their source.
    fn is_rewritten_for(&self, before: &NodePlan, after: &NodePlan) -> bool {
        let routes = (&before.service_cidrs, before.primary) != (&after.service_cidrs, after.primary);
        routes || before.nodeport_ips != after.nodeport_ips
    }

    /// What IPVS picks from keeps its endpoints: each virtual server is changed in place. More is left, so that the rules
    /// go on picking what they pick.
    fn most_turned(&self) -> usize {
        MOST_OF_IPVS + 1_000
    }

    fn configure(&mut self, family: Family, setup: &Setup) -> bool {
        let scheduler = self.usable_scheduler(setup.of_mode.ipvs.scheduler);
        let options = IpvsSettings { scheduler, ..setup.of_mode.ipvs.clone() };
        let before = std::mem::replace(&mut self.options, options);
        if before.timeouts != setup.of_mode.ipvs.timeouts {
            self.set_timeouts();
        }
        self.keep_sysctls();
        self.local_mark = local_mark(setup.masquerade_mark);
        let written = &mut self.families[family.index()].scheduler;
        let is_other = std::mem::replace(written, scheduler) != scheduler;
        self.rules.configure(family, setup) || is_other
    }

    fn watch(&mut self, tell: TellDrift) {
        let tell = Arc::new(Mutex::new(tell));
        let share = |tell: Arc<Mutex<TellDrift>>| -> TellDrift {
            Box::new(move |drift| tell.lock().unwrap_or_else(PoisonError::into_inner)(drift))
        };
        self.ground.watch(share(tell.clone()));
        self.rules.watch(share(tell));
    }

    fn looks(&mut self, sync_period: Duration) -> Looks {
        self.period = sync_period;
        Looks { usual: BETWEEN_SHARES.min(sync_period), longest: sync_period }
    }

    fn damage_found(&self) -> &'static str {
        "Another process changed our virtual servers, routes or rules"
    }

    fn is_intact(
        &mut self,
        family: Family,
        plans: &HashMap<ServiceKey, ServicePlan>,
        node: &NodePlan,
    ) -> bool {
        self.keep_sysctls();
        self.collect_next(family);
        let FamilyState { audit, draining, left_out, .. } = &mut self.families[family.index()];
        let pace = (self.held.total(family), self.period);
        let looked = audit.next(&mut self.servers, (plans, node), (draining, left_out), &self.options, pace);
        if let Some(server) = looked.wrong {
            tracing::debug!(%family, %server, "Virtual server differs from what was programmed");
        }
        // Routes, rules and the table are watched as well: once a round is enough.
        let mut is_rest_intact =
            || self.ground.is_intact(family) && self.rules.is_intact(family, plans, node);
        looked.wrong.is_none() && (!looked.is_round_over || is_rest_intact())
    }

    fn inspect(&mut self, family: Family, inspected: &Inspected<'_>) -> Look {
        inspect::look(self, family, inspected)
    }

    fn cleanup(&mut self, family: Family) -> Result<(), SyncError> {
        self.rules.cleanup(family)
    }
}

/// Servers for which rules stand in.
fn answered(offers: &Offers<'_>) -> impl Iterator<Item = ipvs::VirtualServer> {
    offers.iter().filter(|(_, offer)| offer.pool.is_none()).map(|(server, _)| *server)
}

/// Whether a virtual server that nobody wants may go: ours, or one that another kube-proxy left in this mode.
fn is_removable(
    found: &DumpedServer,
    foreign: &HashSet<IpAddr>,
    node: &NodePlan,
    options: &IpvsSettings,
) -> bool {
    let ipvs::VirtualServer { address, port, .. } = found.server;
    if options.excludes(address) {
        return false;
    }
    let is_left = || {
        let on_node = node.nodeport_ips.contains(&address) && NODE_PORTS.contains(&port);
        foreign.contains(&address) || !foreign.is_empty() && on_node
    };
    found.settings.flags & OURS != 0 || is_left()
}
