//! kube-apiserver: its flags, and when it is ready.

use std::path::Path;

use sandbox::{Namespace, address};

use crate::api::Api;
use crate::control_plane::Options;
use crate::credentials::{Credentials, User};
use crate::daemon::Daemon;
use crate::etcd;

pub(crate) const SERVER: &str = "https://127.0.0.1:6443";

#[derive(Debug)]
pub struct Apiserver {
    daemon: Daemon,
    /// As admin.
    api: Api,
}

impl Apiserver {
    pub(crate) fn start_new(
        binary: &Path,
        namespace: &Namespace,
        folder: &Path,
        credentials: &Credentials,
        options: &Options,
    ) -> Result<Apiserver, String> {
        let flags = flags(folder, credentials, options);
        let daemon = Daemon::new("kube-apiserver", binary, flags, namespace, folder)?;
        let api = Api::new(SERVER, &credentials.authority_pem, User::ADMIN, namespace)?;
        let mut apiserver = Apiserver { daemon, api };
        apiserver.start()?;
        Ok(apiserver)
    }

    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// Start it again after [`Apiserver::kill`] or [`Apiserver::stop`], and wait until it is ready.
    pub fn start(&mut self) -> Result<(), String> {
        let api = &self.api;
        self.daemon.start(|_| api.text("/readyz").is_ok())
    }

    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    pub fn stop(&mut self) -> Result<(), String> {
        self.daemon.stop().map(drop)
    }

    pub fn restart(&mut self) -> Result<(), String> {
        self.stop()?;
        self.start()
    }
}

fn flags(folder: &Path, credentials: &Credentials, options: &Options) -> Vec<String> {
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    let mut flags = vec![
        format!("--etcd-servers={}", etcd::CLIENTS),
        "--bind-address=127.0.0.1".to_owned(),
        "--secure-port=6443".to_owned(),
        // Not loopback, which the API takes for no endpoint.
        format!("--advertise-address={}", address::NODE_V4),
        "--endpoint-reconciler-type=none".to_owned(),
        file("cert-dir", &folder.join("certificates")),
        file("tls-cert-file", &credentials.certificate),
        file("tls-private-key-file", &credentials.key),
        file("client-ca-file", &credentials.authority),
        file("token-auth-file", &credentials.tokens),
        file("service-account-key-file", &credentials.accounts_public),
        file("service-account-signing-key-file", &credentials.accounts_private),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        format!("--service-cluster-ip-range={},{}", address::SERVICES_V4, address::SERVICES_V6),
        "--service-node-port-range=1024-65535".to_owned(),
        // Told to stop, it waits for open watches: by default until a request times out, which is a minute.
        "--shutdown-watch-termination-grace-period=1s".to_owned(),
        "--request-timeout=15s".to_owned(),
        // Tests compact when they want to.
        "--etcd-compaction-interval=0".to_owned(),
        format!("--feature-gates=WatchList={}", options.streaming_lists),
    ];
    flags.extend(options.apiserver_flags.iter().cloned());
    flags
}
