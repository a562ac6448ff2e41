//! The control plane that everything is measured on. In an emulated machine an apiserver is too slow for its own
//! timeouts, and takes the time that is measured: then it runs outside, and only the kube-proxies inside.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use conformance_support::{Api, ControlPlane, Kit, Options, Scratch, User};
use sandbox::Namespace;
use serde_json::json;

use crate::{Failure, ground};

/// The certificate of the authority of a control plane outside. Its name is one that scripts/vm/run passes on.
const OUTSIDE: &str = "POINTSMAN_COMPARE_AUTHORITY";
/// Where QEMU shows its own loopback to the machine inside.
const HOST: &str = "10.0.2.2";
const PORT: u16 = 6443;

pub(crate) struct Plane {
    /// As [`User::ADMIN`].
    api: Api,
    server: String,
    authority: PathBuf,
    /// Which nodes are joined to.
    pub(crate) control: Namespace,
    /// It ends with this.
    own: Option<ControlPlane>,
}

impl Plane {
    /// The one outside if there is one, or one of its own.
    pub(crate) fn find(kit: &Kit) -> Result<Plane, Failure> {
        match std::env::var_os(OUTSIDE) {
            Some(authority) => Plane::reach(HOST, authority.into(), Namespace::current()?, None),
            None => Plane::start(kit),
        }
    }

    pub(crate) fn start(kit: &Kit) -> Result<Plane, Failure> {
        let control = Namespace::new()?;
        let own = ControlPlane::start(kit, &control, &options())?;
        Plane::reach("127.0.0.1", own.authority().to_owned(), control, Some(own))
    }

    fn reach(
        host: &str,
        authority: PathBuf,
        control: Namespace,
        own: Option<ControlPlane>,
    ) -> Result<Plane, Failure> {
        let server = format!("https://{host}:{PORT}");
        let api = connect(&server, &authority, &control)?;
        Ok(Plane { api, server, authority, control, own })
    }

    /// Whether its objects were created by who runs it.
    pub(crate) fn is_outside(&self) -> bool {
        self.own.is_none()
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// Another client with a connection of its own.
    pub(crate) fn another_api(&self) -> Result<Api, Failure> {
        connect(&self.server, &self.authority, &self.control)
    }

    /// With the address at which nodes reach it. JSON is YAML.
    pub(crate) fn kubeconfig(&self, scratch: &Scratch) -> Result<PathBuf, Failure> {
        let cluster = json!({
            "server": format!("https://{}:{PORT}", ground::CONTROL),
            "certificate-authority": self.authority,
            // The certificate knows only names of the namespace it was made for.
            "tls-server-name": "localhost",
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": User::token(User::PROXY)}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        });
        Ok(scratch.write("node.kubeconfig", &config.to_string())?)
    }

    /// Run a command that starts a machine beside this control plane.
    pub(crate) fn run_beside(&self, command: &[String]) -> Result<ExitStatus, Failure> {
        let (program, arguments) = command.split_first().ok_or("--beside needs a command")?;
        let mut command = Command::new(program);
        command.args(arguments).env(OUTSIDE, &self.authority);
        self.control.enter(&mut command)?;
        Ok(command.status().map_err(|e| format!("{program}: {e}"))?)
    }
}

fn connect(server: &str, authority: &PathBuf, control: &Namespace) -> Result<Api, Failure> {
    let pem = std::fs::read_to_string(authority).map_err(|e| format!("{}: {e}", authority.display()))?;
    Ok(Api::new(server, &pem, User::ADMIN, control)?)
}

/// Reachable from nodes, and not the one to slow down the loading.
fn options() -> Options {
    let flags =
        ["--bind-address=0.0.0.0", "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"];
    Options {
        apiserver_flags: flags.map(str::to_owned).into(),
        names: vec![HOST.to_owned()],
        ..Options::default()
    }
}
