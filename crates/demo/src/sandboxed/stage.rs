//! The stage: sandbox, servers in its pods, manifests, and the agent on the node.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use kernel::netns::Privilege;
use sandbox::{Namespace, Outcome, Place, Sandbox, SandboxError, SandboxSpec, Server, address, probe};

use super::super::leftovers::Leftovers;
use super::DemoError;
use super::agent::Agent;
use super::cast::*;
use super::folder::Folder;
use super::slices::Backed;

pub(crate) struct Stage {
    pub(super) privilege: Privilege,
    pub(super) sandbox: Sandbox,
    pub(super) folder: Folder,
    pub(super) agent: Agent,
    /// From starting the agent until all rules were in place.
    pub(super) start: Duration,
    /// Pods behind the services, as the manifests say.
    pub(super) members: Vec<Member>,
    /// By pod.
    servers: Vec<(String, [Server; 3])>,
}

impl Stage {
    pub(super) fn open(
        privilege: Privilege,
        sandbox: Sandbox,
        kube_proxy: &Path,
        leftovers: &Leftovers,
    ) -> Result<Stage, DemoError> {
        let serving = || sandbox.pods().iter().filter(|pod| pod.name != FRONTEND);
        let members: Vec<Member> = serving().map(member).collect();
        let servers = serving().map(serve).collect::<Result<_, _>>()?;
        let folder = Folder::fill(leftovers.make_folder()?, &members)?;
        let (agent, start) = Agent::start(kube_proxy, &sandbox.node, &folder, leftovers)?;
        Ok(Stage { privilege, sandbox, folder, agent, start, members, servers })
    }

    /// A new pod with its servers; no service knows of it yet.
    pub(super) fn add_pod(&mut self, name: &str) -> Result<Member, DemoError> {
        let pod = self.sandbox.add_pod(Place::Local, name)?;
        self.servers.push(serve(pod)?);
        Ok(member(pod))
    }

    pub(super) fn remove_pod(&mut self, name: &str) -> Result<(), DemoError> {
        self.servers.retain(|(pod, _)| pod != name);
        Ok(self.sandbox.remove_pod(name)?)
    }

    /// Tell the agent, by its manifests, which pods are behind these services.
    pub(super) fn publish(&self, services: &[Backed]) -> Result<std::time::Instant, DemoError> {
        let mut first = None;
        for service in services {
            let at = self.folder.put_members(*service, &self.members)?;
            first.get_or_insert(at);
        }
        Ok(first.unwrap_or_else(std::time::Instant::now))
    }

    pub(super) fn frontend(&self) -> Result<&Namespace, DemoError> {
        Ok(&self.sandbox.pod(FRONTEND)?.namespace)
    }
}

/// The empty stage.
pub(super) fn build() -> Result<Sandbox, SandboxError> {
    let names = |pods: &[&str]| pods.iter().map(|pod| (*pod).to_owned()).collect();
    Sandbox::new(&SandboxSpec { local_pods: names(&LOCAL_PODS), remote_pods: names(&REMOTE_PODS) })
}

impl World for Stage {
    fn ask(&mut self, question: &Question, patience: Duration) -> Answer {
        let source = (question.caller == Caller::SecondClient)
            .then(|| self.address_of(question.caller, question.to.ip()));
        let from = match question.caller {
            Caller::Client | Caller::SecondClient => &self.sandbox.client,
            Caller::Frontend => match self.frontend() {
                Ok(namespace) => namespace,
                Err(error) => return Answer::Failed(error.to_string()),
            },
        };
        let outcome = match question.transport {
            Transport::Tcp => probe::tcp(from, source, question.to, patience),
            Transport::Udp => probe::udp(from, source, question.to, patience),
        };
        answer(outcome)
    }

    fn address_of(&self, caller: Caller, like: IpAddr) -> IpAddr {
        match (caller, like.is_ipv4()) {
            (Caller::Frontend, _) => self.sandbox.pod(FRONTEND).map_or(like, |pod| pod.address_like(like)),
            (Caller::Client, true) => address::CLIENT_V4.into(),
            (Caller::Client, false) => address::CLIENT_V6.into(),
            (Caller::SecondClient, true) => address::CLIENT_SECOND_V4.into(),
            (Caller::SecondClient, false) => address::CLIENT_SECOND_V6.into(),
        }
    }

    fn keeps_time(&self) -> bool {
        true
    }
}

fn answer(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Answered { by, seen_as, .. } => Answer::By { pod: by, seen_as },
        Outcome::Refused => Answer::Refused,
        Outcome::TimedOut => Answer::Silence,
        Outcome::Closed => Answer::Failed("cut off".into()),
        Outcome::Unreachable(number) => Answer::Failed(std::io::Error::from_raw_os_error(number).to_string()),
        Outcome::Failed(why) => Answer::Failed(why),
    }
}

fn member(pod: &sandbox::Pod) -> Member {
    let node = match pod.place {
        Place::Local => NODE_NAME,
        Place::Remote => OTHER_NODE_NAME,
    };
    Member { name: pod.name.clone(), v4: pod.v4, v6: pod.v6, node }
}

fn serve(pod: &sandbox::Pod) -> Result<(String, [Server; 3]), DemoError> {
    let name = format!("pod-{}", pod.name);
    let [v4, v6] = pod.addresses();
    Ok((
        pod.name.clone(),
        [
            Server::tcp(&pod.namespace, &name, SocketAddr::new(v4, HTTP_PORT))?,
            Server::tcp(&pod.namespace, &name, SocketAddr::new(v6, HTTP_PORT))?,
            Server::udp(&pod.namespace, &name, SocketAddr::new(v4, DNS_PORT))?,
        ],
    ))
}
