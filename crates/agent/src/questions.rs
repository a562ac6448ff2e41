//! Questions to the sync thread, which alone knows what is planned and what is programmed. A question travels as an
//! event and brings the way back for its answer, so that nothing is locked and no asker holds a sync up.

use std::fmt;
use std::time::Duration;

use cluster::ClusterState;
use dataplane::{Backend, Reconciler};
use model::{Address, Family, Planner, PortPlan, Protocol, ServiceKey, ServicePlan};
use tokio::sync::oneshot;

use crate::inbox;
use crate::lane::Lane;
use crate::sync::Event;

/// Questions that may wait. Any more are refused at once.
pub(crate) const MOST_WAITING: usize = 16;
/// Questions that are answered after one sync: changes that arrive meanwhile wait for no more.
pub(crate) const ANSWERS_PER_TURN: usize = 4;
/// Commits of large rewrites take seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The heaviest service that is planned for a question, by [`Planner::weight`]: a few milliseconds' worth.
const HEAVIEST_PLANNED: usize = 5_000;
/// Ports of a service that an answer describes, and addresses of each of them.
const MOST_PORTS: usize = 100;
const MOST_ADDRESSES: usize = 20;

/// What the sync thread is asked, and where the answer goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// `None` if neither the cluster nor the rules have such a service.
    ServiceStatus(ServiceKey, Reply<Option<ServiceStatus>>),
}

#[derive(Debug)]
pub(crate) struct Reply<T>(oneshot::Sender<Result<T, Unanswered>>);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    TooMany,
    Busy,
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
            Unanswered::Stopping => f.write_str("the agent is stopping"),
        }
    }
}

impl Question {
    /// Nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Question::ServiceStatus(_, reply) => reply.0.is_closed(),
        }
    }

    /// There are too many.
    pub(crate) fn refuse(self) {
        match self {
            Question::ServiceStatus(_, reply) => reply.send(Err(Unanswered::TooMany)),
        }
    }
}

impl<T> Reply<T> {
    pub(crate) fn answer(self, answer: T) {
        self.send(Ok(answer));
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
        let (reply, answer) = oneshot::channel();
        let question = Question::ServiceStatus(service, Reply(reply));
        self.0.send(Event::Question(question)).map_err(|inbox::Gone| Unanswered::Stopping)?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Unanswered::Stopping),
            Err(_) => Err(Unanswered::Busy),
        }
    }
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
        Rules::Ports(plan.ports.len(), plan.ports.iter().take(MOST_PORTS).map(PortRules::of).collect())
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
