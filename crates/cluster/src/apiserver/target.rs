//! Which apiserver is meant, whom it is trusted by and who we are there: from a kubeconfig, a flag or the pod's service
//! account. Reads files and variables, and connects to nothing.

use std::env;
use std::fs;
use std::path::PathBuf;

use hyper::Uri;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

use super::connect::ConnectError;
use super::kubeconfig::{self, Cluster, User};
use super::wording::{masked, one_line};
use super::{Settings, base64, no_proxy};

/// Where a pod finds its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) struct Target {
    pub(super) server: Uri,
    /// `None`: those that the system trusts.
    pub(super) roots: Option<Vec<CertificateDer<'static>>>,
    pub(super) is_insecure: bool,
    /// What certificates are held against, if not the host.
    pub(super) server_name: Option<String>,
    pub(super) proxy: Option<Uri>,
    pub(super) user: User,
    /// What an exec plugin gets to know about the cluster, if it asks for it.
    pub(super) told: Value,
}

impl Target {
    pub(super) fn load(settings: &Settings) -> Result<Target, ConnectError> {
        let target = match (&settings.kubeconfig, &settings.master) {
            (Some(path), master) => {
                let master = master.as_deref().map(parse_master).transpose()?;
                Target::of_kubeconfig(path.clone(), master)?
            }
            (None, Some(url)) => Target::at(parse_master(url)?),
            (None, None) => Target::of_pod().map_err(|why| ConnectError::NotInCluster { why })?,
        };
        Ok(target)
    }

    fn at(server: Uri) -> Target {
        Target {
            server,
            roots: None,
            is_insecure: false,
            server_name: None,
            proxy: None,
            user: User::default(),
            told: Value::Null,
        }
    }

    fn of_pod() -> Result<Target, String> {
        let variable = |name: &str| env::var(name).map_err(|_| format!("{name} is not set"));
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let server = format!("https://{host}:{port}").parse::<Uri>();
        let server = server.map_err(|error| format!("KUBERNETES_SERVICE_HOST and _PORT: {error}"))?;
        let path = format!("{ACCOUNT}/ca.crt");
        let authority = fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        let roots = certificates(&authority).map_err(|why| format!("{path}: {why}"))?;
        let user = User { token_file: Some(format!("{ACCOUNT}/token")), ..User::default() };
        Ok(Target { roots: Some(roots), user, ..Target::at(server) })
    }

    /// With another server than its own, if there is one: its `tls-server-name` is not that one's.
    fn of_kubeconfig(path: PathBuf, master: Option<Uri>) -> Result<Target, ConnectError> {
        let read = kubeconfig::read(&path).and_then(|(mut cluster, user)| {
            if let Some(server) = master {
                cluster.server = Some(server.to_string());
                cluster.tls_server_name = None;
            }
            Target::of_context(&cluster, user)
        });
        read.map_err(|why| ConnectError::Kubeconfig { path, why })
    }

    fn of_context(cluster: &Cluster, user: User) -> Result<Target, String> {
        let server = cluster.server.as_deref().filter(|server| !server.is_empty());
        let server: Uri = server.ok_or("its cluster has no server")?.parse().map_err(|error| {
            format!("the server of its cluster is not a URL such as https://10.0.0.1:6443: {error}")
        })?;
        if !matches!(server.scheme_str(), Some("http" | "https")) {
            let server = masked(&server.to_string());
            return Err(format!("the server {server} of its cluster does not begin with https://"));
        }
        if user.auth_provider.is_some() {
            return Err("its user has an auth-provider, which no kube-proxy supports; use exec".to_owned());
        }
        let authority = load(
            cluster.certificate_authority_data.as_deref(),
            cluster.certificate_authority.as_deref(),
            "certificate-authority",
        )?;
        let roots = match &authority {
            Some(authority) => Some(
                certificates(authority)
                    .map_err(|why| format!("the certificate-authority of its cluster: {why}"))?,
            ),
            None => None,
        };
        let told = cluster.told(authority.map(|authority| base64::encode(&authority)));
        Ok(Target {
            roots,
            is_insecure: cluster.insecure_skip_tls_verify == Some(true),
            server_name: cluster.tls_server_name.clone().filter(|name| !name.is_empty()),
            proxy: proxy_of(cluster, &server)?,
            told: serde_json::to_value(told).map_err(one_line)?,
            user,
            ..Target::at(server)
        })
    }
}

fn parse_master(url: &str) -> Result<Uri, ConnectError> {
    let bad = |why: String| ConnectError::Master { url: masked(url), why };
    let uri: Uri = url.parse().map_err(|error| bad(one_line(error)))?;
    match uri.scheme_str() {
        Some("http" | "https") => Ok(uri),
        _ => Err(bad("it begins with neither https:// nor http://".to_owned())),
    }
}

/// That of the kubeconfig, or that of the environment unless the server is among those reached without one.
fn proxy_of(cluster: &Cluster, server: &Uri) -> Result<Option<Uri>, String> {
    let given = |text: &String| !text.is_empty();
    let variable = |names: [&str; 2]| names.iter().find_map(|name| env::var(name).ok().filter(given));
    if let Some(url) = cluster.proxy_url.as_ref().filter(|url| given(url)) {
        let url = url.parse().map_err(|error| format!("its proxy-url is not a URL: {error}"))?;
        return Ok(Some(url));
    }
    let exceptions = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    match variable(["HTTPS_PROXY", "https_proxy"]) {
        Some(_) if no_proxy::covers(&exceptions, server) => Ok(None),
        Some(url) => {
            let url = if url.contains("://") { url } else { format!("http://{url}") };
            Ok(Some(url.parse().map_err(|error| format!("HTTPS_PROXY is not a URL: {error}"))?))
        }
        None => Ok(None),
    }
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("it holds a certificate that cannot be read: {}", one_line(error))),
    }
}

/// What a kubeconfig has as data or in a file, in that order.
pub(super) fn load(data: Option<&str>, path: Option<&str>, what: &str) -> Result<Option<Vec<u8>>, String> {
    let given = |text: &&str| !text.is_empty();
    match (data.filter(given), path.filter(given)) {
        (Some(data), _) => match base64::decode(data) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(format!("its {what}-data is not Base64")),
        },
        (None, Some(path)) => match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => Err(format!("cannot read the {what} {path}: {error}")),
        },
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_is_not_known_by_the_name_of_the_first() {
        let path = std::env::temp_dir().join(format!("target-{}", std::process::id()));
        let text = "{current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, \
                    cluster: {server: 'https://192.0.2.1', tls-server-name: first}}]}";
        fs::write(&path, text).unwrap();
        let of = |master: Option<&str>| {
            let master = master.map(|url| parse_master(url).unwrap());
            let target = Target::of_kubeconfig(path.clone(), master).unwrap();
            (target.server.to_string(), target.server_name)
        };
        let own = of(None);
        let other = of(Some("https://192.0.2.2:6443"));
        fs::remove_file(&path).unwrap();
        assert_eq!(own, ("https://192.0.2.1/".to_owned(), Some("first".to_owned())));
        assert_eq!(other, ("https://192.0.2.2:6443/".to_owned(), None));
    }
}
