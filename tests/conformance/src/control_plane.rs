//! etcd and kube-apiserver together.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sandbox::Namespace;
use serde_json::json;

use crate::api::Api;
use crate::apiserver::{Apiserver, SERVER};
use crate::credentials::{Credentials, User};
use crate::etcd::Etcd;
use crate::kit::Kit;
use crate::kubeconfig::{self, Proof};
use crate::scratch::Scratch;

/// `off` in the environment lets the same tests run where streaming lists are refused.
pub const STREAMING_LISTS: &str = "POINTSMAN_STREAMING_LISTS";

/// What a control plane is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a watch may begin with the objects there are; without, it is refused as older servers do. By
    /// default as [`STREAMING_LISTS`] says, or yes.
    pub streaming_lists: bool,
    /// Beside [`User::ADMIN`] and [`User::PROXY`].
    pub users: Vec<User>,
    /// Later ones win over the usual ones.
    pub apiserver_flags: Vec<String>,
    /// An address by which other namespaces reach the apiserver, for kubeconfigs; it has to listen there too.
    pub address: Option<IpAddr>,
    /// Names and addresses in its certificate, beside the usual ones.
    pub names: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        let refused = std::env::var_os(STREAMING_LISTS).is_some_and(|word| word == "off");
        Options {
            streaming_lists: !refused,
            users: Vec::new(),
            apiserver_flags: Vec::new(),
            address: None,
            names: Vec::new(),
        }
    }
}

/// A running control plane on the loopback of a namespace, one per namespace. Dropping it ends everything.
/// Parts are dropped in this order.
#[derive(Debug)]
pub struct ControlPlane {
    pub apiserver: Apiserver,
    pub etcd: Etcd,
    credentials: Credentials,
    /// For kubeconfigs.
    server: String,
    namespace: Namespace,
    scratch: Scratch,
}

impl ControlPlane {
    /// Start both and wait until the apiserver is ready.
    pub fn start(kit: &Kit, namespace: &Namespace, options: &Options) -> Result<ControlPlane, String> {
        let scratch = Scratch::create()?;
        let mut users = vec![User::new(User::ADMIN, &["system:masters"]), User::new(User::PROXY, &[])];
        users.extend(options.users.iter().cloned());
        let credentials = Credentials::make(&scratch, &users, &options.names)?;
        let etcd = Etcd::start_new(&kit.etcd, namespace, scratch.path())?;
        let apiserver =
            Apiserver::start_new(&kit.apiserver, namespace, scratch.path(), &credentials, options)?;
        let namespace = namespace.try_clone().map_err(|e| e.to_string())?;
        let server = options.address.map_or(SERVER.to_owned(), |address| format!("https://{address}:6443"));
        Ok(ControlPlane { apiserver, etcd, credentials, server, namespace, scratch })
    }

    /// A client that may do everything.
    pub fn api(&self) -> &Api {
        self.apiserver.api()
    }

    pub fn api_as(&self, user: &str) -> Result<Api, String> {
        Api::new(SERVER, &self.credentials.authority_pem, user, &self.namespace)
    }

    /// A kubeconfig with the user's token in it.
    pub fn kubeconfig(&self, user: &str) -> Result<PathBuf, String> {
        self.write_kubeconfig("token", user, Proof::Token(&User::token(user)))
    }

    /// A kubeconfig that names a file, which holds the token and may be rewritten: both paths.
    pub fn kubeconfig_with_token_file(&self, user: &str) -> Result<(PathBuf, PathBuf), String> {
        let file = self.scratch.write(&format!("{}.token", in_file_names(user)), &User::token(user))?;
        let config = self.write_kubeconfig("token-file", user, Proof::TokenFile(&file))?;
        Ok((config, file))
    }

    /// A kubeconfig of [`User::PROXY`] with a client certificate.
    pub fn kubeconfig_with_certificate(&self) -> Result<PathBuf, String> {
        let Credentials { client_certificate: certificate, client_key: key, .. } = &self.credentials;
        self.write_kubeconfig("certificate", User::PROXY, Proof::Certificate { certificate, key })
    }

    /// A kubeconfig of the user that runs a program for its token.
    pub fn kubeconfig_with_plugin(&self, user: &str) -> Result<PathBuf, String> {
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": User::token(user)},
        });
        let script = format!("#!/bin/sh\ncat <<'END'\n{credential}\nEND\n");
        let plugin = self.scratch.write("plugin", &script)?;
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
        self.write_kubeconfig("plugin", user, Proof::Exec(&plugin))
    }

    /// The certificate of who signed the server's.
    pub fn authority(&self) -> &Path {
        &self.credentials.authority
    }

    /// The key that tokens of service accounts are signed with.
    pub fn accounts_key(&self) -> &Path {
        &self.credentials.accounts_private
    }

    /// For files that are to vanish with the control plane.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    fn write_kubeconfig(&self, kind: &str, user: &str, proof: Proof<'_>) -> Result<PathBuf, String> {
        let text = kubeconfig::text(&self.server, &self.credentials.authority, proof);
        self.scratch.write(&format!("{}-{kind}.kubeconfig", in_file_names(user)), &text)
    }
}

fn in_file_names(user: &str) -> String {
    user.replace(':', "-")
}
