//! A proxy on the control plane: our agent or upstream's, as the user that RBAC knows as a kube-proxy.

use sandbox::Namespace;
use test_support::directory::NODE;
use test_support::{NodeAgent, SettingsVariant, Source};

use crate::control_plane::ControlPlane;
use crate::credentials::User;
use crate::kit::Kit;
use crate::upstream::Upstream;

#[derive(Debug)]
pub enum Running {
    Ours(NodeAgent),
    Upstream(Upstream),
}

impl Running {
    /// Start our agent in `node` and wait until all rules are in place. The thread that calls must live as long
    /// as the agent.
    pub fn ours(
        kit: &Kit,
        plane: &ControlPlane,
        node: &Namespace,
        variant: SettingsVariant,
    ) -> Result<Running, String> {
        let kubeconfig = plane.kubeconfig(User::PROXY)?;
        let source = Source {
            flag: format!("--kubeconfig={}", kubeconfig.display()),
            log: plane.folder().join("kube-proxy.log"),
        };
        NodeAgent::start(&kit.kube_proxy, node, source, NODE, &variant.flags()).map(Running::Ours)
    }

    /// Start upstream's in `node` and wait until it has programmed what there is.
    pub fn upstream(
        kit: &Kit,
        plane: &ControlPlane,
        node: &Namespace,
        variant: SettingsVariant,
    ) -> Result<Running, String> {
        let kubeconfig = plane.kubeconfig(User::PROXY)?;
        let flags = Upstream::flags(variant);
        let started = Upstream::start(&kit.upstream, node, &kubeconfig, NODE, &flags, plane.folder());
        started.map(Running::Upstream)
    }

    pub fn log(&self) -> String {
        match self {
            Running::Ours(agent) => agent.log(),
            Running::Upstream(upstream) => upstream.daemon().log(),
        }
    }

    pub fn stop(&mut self) -> Result<(), String> {
        match self {
            Running::Ours(agent) => agent.stop().map(drop),
            Running::Upstream(upstream) => upstream.stop(),
        }
    }
}
