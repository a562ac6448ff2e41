//! Questions to the sync thread, which alone knows what is planned and what is programmed. A question travels as an
//! event and brings the way back for its answer, so that nothing is locked and no asker holds a sync up.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use cluster::ClusterState;
use commands::targets::Target;
use dataplane::{Backend, HEAVIEST_PLANNED, Look, Reconciler};
use model::{Address, Family, Planner, PortPlan, Protocol, ServiceKey, ServicePlan};
use tokio::sync::oneshot;

use crate::inbox;
use crate::lane::Lane;
use crate::sync::Event;

mod compare;
mod explain;
mod services;

use services::MOST_LOST;

pub(crate) use compare::{Cursor, InspectedServices, Wanted, inspect};
pub(crate) use explain::{ExplainRequest, Explanation, Explanations, MOST_ENDPOINTS, Sender, View};
pub(crate) use services::{Judged, PortRow, Refused, ServiceRow, Troubled, describe, judge, judge_ports};

/// Questions that may wait. Any more are refused at once.
pub(crate) const MOST_WAITING: usize = 16;
/// Questions that are answered after one sync: changes that arrive meanwhile wait for no more.
pub(crate) const ANSWERS_PER_TURN: usize = 4;
/// Commits of large rewrites take seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Services that are described in one answer of the sync thread: a fraction of a millisecond.
pub(crate) const MOST_ROWS: usize = 40;
/// Services that are looked through for problems in one answer of the sync thread: less than half a millisecond.
pub(crate) const MOST_JUDGED: usize = 250;
/// Ports behind the first that are shown because they refuse somebody.
const MOST_TROUBLED: usize = 50;
/// Ports of a service that an answer describes, and addresses of each of them.
const MOST_PORTS: usize = 100;
const MOST_ADDRESSES: usize = 20;

/// What the sync thread is asked, and where the answer goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// `None` if neither the cluster nor the rules have such a service.
    ServiceStatus(ServiceKey, Reply<Option<ServiceStatus>>),
    Explain(Box<ExplainRequest>, Reply<Explanations>),
    /// The names of all services, in no particular order; or of those that have this address.
    ServiceNames(Option<IpAddr>, Reply<Vec<ServiceKey>>),
    /// What is programmed for these, at most [`MOST_ROWS`] of them: how many were looked at, from the first on, until it was
    /// enough; those that are gone are left out.
    ServiceRows(Vec<ServiceKey>, Reply<(usize, Vec<ServiceRow>)>),
    /// Which of these, at most [`MOST_JUDGED`], refuse somebody; and how many were judged, as above.
    Problematic(Vec<ServiceKey>, Reply<(usize, Vec<Judged>)>),
    /// Which ports of a service refuse somebody, from this one on until it was enough.
    Ports(ServiceKey, usize, Reply<Troubled>),
    /// Compare all of a family with the kernel, or what this service has and what all share, where the mode does that at
    /// once.
    InspectAll(Family, Option<ServiceKey>, Reply<Option<Look>>),
    /// Compare services with the kernel until it is enough.
    InspectServices(Wanted, Reply<InspectedServices>),
}

#[derive(Debug)]
pub(crate) struct Reply<T>(oneshot::Sender<Result<T, Unanswered>>);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    TooMany,
    Busy,
    /// The last write failed, so that nobody knows what is in the kernel.
    Rewriting,
    Stopping,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::TooMany => {
                write!(f, "{MOST_WAITING} questions are waiting for the sync thread already; try again later")
            }
            Unanswered::Busy => {
                let seconds = PATIENCE.as_secs();
                write!(
                    f,
                    "the sync thread did not answer within {seconds} s, it is writing rules; try again later"
                )
            }
            Unanswered::Rewriting => f.write_str(
                "the last sync failed and a full rewrite is pending; see the log and try again later",
            ),
            Unanswered::Stopping => f.write_str("the agent is stopping"),
        }
    }
}

impl Question {
    /// Nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Question::ServiceStatus(_, reply) => reply.0.is_closed(),
            Question::Explain(_, reply) => reply.0.is_closed(),
            Question::ServiceNames(_, reply) => reply.0.is_closed(),
            Question::ServiceRows(_, reply) => reply.0.is_closed(),
            Question::Problematic(_, reply) => reply.0.is_closed(),
            Question::Ports(.., reply) => reply.0.is_closed(),
            Question::InspectAll(.., reply) => reply.0.is_closed(),
            Question::InspectServices(.., reply) => reply.0.is_closed(),
        }
    }

    /// There are too many.
    pub(crate) fn refuse(self) {
        match self {
            Question::ServiceStatus(_, reply) => reply.send(Err(Unanswered::TooMany)),
            Question::Explain(_, reply) => reply.send(Err(Unanswered::TooMany)),
            Question::ServiceNames(_, reply) => reply.send(Err(Unanswered::TooMany)),
            Question::ServiceRows(_, reply) => reply.send(Err(Unanswered::TooMany)),
            Question::Problematic(_, reply) => reply.send(Err(Unanswered::TooMany)),
            Question::Ports(.., reply) => reply.send(Err(Unanswered::TooMany)),
            Question::InspectAll(.., reply) => reply.send(Err(Unanswered::TooMany)),
            Question::InspectServices(.., reply) => reply.send(Err(Unanswered::TooMany)),
        }
    }
}

impl<T> Reply<T> {
    pub(crate) fn answer(self, answer: T) {
        self.send(Ok(answer));
    }

    pub(crate) fn decline(self, why: Unanswered) {
        self.send(Err(why));
    }

    fn send(self, answer: Result<T, Unanswered>) {
        // An asker who left needs no answer.
        let _ = self.0.send(answer);
    }
}

/// Asks the sync thread.
#[derive(Clone, Debug)]
pub(crate) struct Asker(inbox::Sender);

impl Asker {
    pub(crate) fn new(events: inbox::Sender) -> Asker {
        Asker(events)
    }

    pub(crate) async fn service_status(
        &self,
        service: ServiceKey,
    ) -> Result<Option<ServiceStatus>, Unanswered> {
        self.ask(|reply| Question::ServiceStatus(service, reply)).await
    }

    /// What takes long is asked for address by address, so that none holds a sync up for long.
    pub(crate) async fn explain(&self, request: ExplainRequest) -> Result<Explanations, Unanswered> {
        let first = request.clone();
        let mut found = self.ask(|reply| Question::Explain(Box::new(first), reply)).await?;
        let most_endpoints = request.most_endpoints / (found.each.len() + found.rest.len()).max(1);
        for (protocol, to) in std::mem::take(&mut found.rest) {
            let one = ExplainRequest { target: Target::At(protocol, to), most_endpoints, ..request.clone() };
            let one = self.ask(|reply| Question::Explain(Box::new(one), reply)).await?;
            found.each.extend(one.each);
        }
        Ok(found)
    }

    pub(crate) async fn service_names(&self, at: Option<IpAddr>) -> Result<Vec<ServiceKey>, Unanswered> {
        self.ask(|reply| Question::ServiceNames(at, reply)).await
    }

    /// In pieces, so that none holds a sync up for long.
    pub(crate) async fn service_rows(&self, services: &[ServiceKey]) -> Result<Vec<ServiceRow>, Unanswered> {
        let mut rows = Vec::with_capacity(services.len());
        let mut rest = services;
        while !rest.is_empty() {
            let some = rest.get(..MOST_ROWS).unwrap_or(rest).to_vec();
            let (done, some) = self.ask(|reply| Question::ServiceRows(some, reply)).await?;
            for mut row in some {
                self.add_troubled(&mut row).await?;
                rows.push(row);
            }
            rest = rest.get(done.max(1)..).unwrap_or_default();
        }
        Ok(rows)
    }

    /// Ports behind the first that refuse somebody.
    async fn add_troubled(&self, row: &mut ServiceRow) -> Result<(), Unanswered> {
        let shown = row.ports.len();
        let mut next = (row.port_count > shown).then_some(shown);
        while let Some(from) = next
            && row.ports.len() < shown + MOST_TROUBLED
        {
            let found = self.ports(&row.service, from).await?;
            row.ports.extend(found.ports);
            row.lost.extend(found.lost);
            next = found.next.filter(|next| *next > from);
        }
        row.ports.truncate(shown + MOST_TROUBLED);
        row.lost.truncate(MOST_LOST);
        Ok(())
    }

    async fn ports(&self, service: &ServiceKey, from: usize) -> Result<Troubled, Unanswered> {
        self.ask(|reply| Question::Ports(service.clone(), from, reply)).await
    }

    /// Those that refuse somebody, in the order given, or the first of them: at least `enough` if there are so many.
    pub(crate) async fn problematic(
        &self,
        services: &[ServiceKey],
        enough: usize,
    ) -> Result<Vec<ServiceKey>, Unanswered> {
        let (mut found, mut rest) = (Vec::new(), services);
        while !rest.is_empty() && found.len() < enough {
            let some = rest.get(..MOST_JUDGED).unwrap_or(rest).to_vec();
            let (done, some) = self.ask(|reply| Question::Problematic(some, reply)).await?;
            for judged in some {
                match judged {
                    Judged::Refuses(service) => found.push(service),
                    Judged::Further(service) if self.refuses_further(&service).await? => found.push(service),
                    Judged::Further(_) => {}
                }
            }
            rest = rest.get(done.max(1)..).unwrap_or_default();
        }
        Ok(found)
    }

    /// Whether a port behind the first refuses somebody.
    async fn refuses_further(&self, service: &ServiceKey) -> Result<bool, Unanswered> {
        let mut next = Some(services::MOST_PORTS);
        while let Some(from) = next {
            let found = self.ports(service, from).await?;
            if !found.ports.is_empty() || !found.lost.is_empty() {
                return Ok(true);
            }
            next = found.next.filter(|next| *next > from);
        }
        Ok(false)
    }

    pub(crate) async fn inspect_all(
        &self,
        family: Family,
        wanted: Option<ServiceKey>,
    ) -> Result<Option<Look>, Unanswered> {
        self.ask(|reply| Question::InspectAll(family, wanted, reply)).await
    }

    pub(crate) async fn inspect_services(&self, wanted: Wanted) -> Result<InspectedServices, Unanswered> {
        self.ask(|reply| Question::InspectServices(wanted, reply)).await
    }

    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Result<T, Unanswered> {
        let (reply, answer) = oneshot::channel();
        let question = question(Reply(reply));
        self.0.send(Event::Question(question)).map_err(|inbox::Gone| Unanswered::Stopping)?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Unanswered::Stopping),
            Err(_) => Err(Unanswered::Busy),
        }
    }
}

/// The services that have something at an address, each once; only some where it is very many.
pub(crate) fn services_at<B: Backend>(ip: IpAddr, reconciler: &Reconciler<B>) -> Vec<ServiceKey> {
    const MOST: usize = 1000;
    let mut services: Vec<ServiceKey> =
        reconciler.claims_at(ip, MOST).into_iter().map(|(_, service)| service).collect();
    services.sort_unstable();
    services.dedup();
    services
}

/// One service, by [`Family::index`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceStatus(pub(crate) [FamilyStatus; 2]);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FamilyStatus {
    /// A sync that may change its rules is still to come.
    pub(crate) is_pending: bool,
    /// Endpoints in the slices of the service, whatever their state.
    pub(crate) known_endpoints: usize,
    pub(crate) planned: Rules,
    pub(crate) programmed: Rules,
}

/// What a service has or is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Programmed: everything is to be rewritten. Planned: too large to be planned for a question.
    Unknown,
    /// The service is not there.
    None,
    /// How many ports, and the first of them.
    Ports(usize, Vec<PortRules>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortRules {
    pub(crate) name: Box<str>,
    pub(crate) protocol: Protocol,
    /// How many addresses it is reached at, and the first of them.
    pub(crate) address_count: usize,
    pub(crate) addresses: Vec<Address>,
    /// Usable endpoints for traffic of policy Cluster; none if nothing has that policy.
    pub(crate) cluster_endpoints: usize,
    /// The same for policy Local: those on this node.
    pub(crate) local_endpoints: usize,
}

impl ServiceStatus {
    /// `None` if neither the cluster nor the rules have such a service.
    pub(crate) fn of<B: Backend>(
        service: &ServiceKey,
        state: &ClusterState,
        planner: &dyn Planner,
        reconciler: &Reconciler<B>,
        lanes: &[Lane; 2],
    ) -> Option<ServiceStatus> {
        let families = lanes.each_ref().map(|lane| {
            let family = lane.family;
            let programmed = match reconciler.is_unknown(family) {
                true => Rules::Unknown,
                false => Rules::of(reconciler.plan(family, service)),
            };
            FamilyStatus {
                is_pending: reconciler.is_unknown(family) || lane.waits_for(service),
                known_endpoints: state.endpoint_count(service, family),
                planned: planned(service, family, planner),
                programmed,
            }
        });
        let has_rules = |rules: &Rules| matches!(rules, Rules::Ports(..));
        let is_known = state.service(service).is_some()
            || families.iter().any(|family| family.known_endpoints > 0 || has_rules(&family.programmed));
        is_known.then_some(ServiceStatus(families))
    }
}

fn planned(service: &ServiceKey, family: Family, planner: &dyn Planner) -> Rules {
    if planner.weight(service) > HEAVIEST_PLANNED {
        return Rules::Unknown;
    }
    Rules::of(planner.plan(service, family).as_ref().map(|planned| &planned.plan))
}

impl Rules {
    fn of(plan: Option<&ServicePlan>) -> Rules {
        let Some(plan) = plan else { return Rules::None };
        Rules::Ports(
            plan.ports.len(),
            plan.ports.iter().take(MOST_PORTS).map(|port| PortRules::of(port)).collect(),
        )
    }
}

impl PortRules {
    fn of(port: &PortPlan) -> PortRules {
        let addresses = port.destinations.iter().map(|destination| destination.at);
        PortRules {
            name: port.name.clone(),
            protocol: port.protocol,
            address_count: port.destinations.len(),
            addresses: addresses.take(MOST_ADDRESSES).collect(),
            cluster_endpoints: port.cluster_pool.len(),
            local_endpoints: port.local_pool.len(),
        }
    }
}

#[cfg(test)]
mod tests;
