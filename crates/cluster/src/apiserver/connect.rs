//! The way to the apiserver, as a kubeconfig, a flag or the pod's service account describe it.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::header::AUTHORIZATION;

use super::client::Client;
use super::identity::{headers, read_token};
use super::kubeconfig::Exec;
use super::plugin::{self, Credentials};
use super::route::Route;
use super::target::Target;
use super::wording::masked;
use super::{Settings, base64, tls};

/// Why there is no way to the apiserver: something the operator has to fix.
#[derive(Debug)]
pub enum ConnectError {
    Kubeconfig {
        path: PathBuf,
        why: String,
    },
    TokenFile {
        path: PathBuf,
        why: String,
    },
    Master {
        url: String,
        why: String,
    },
    NotInCluster {
        why: String,
    },
    Client {
        server: String,
        why: String,
    },
    Thread(std::io::Error),
    /// An exec plugin takes its time.
    NotInTime,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Kubeconfig { path, why } => {
                write!(f, "cannot use the kubeconfig {}: {why}", path.display())
            }
            ConnectError::TokenFile { path, why } => {
                write!(f, "cannot use the token in {}: {why}", path.display())
            }
            ConnectError::Master { url, why } => {
                write!(f, "--master {url:?} is not a URL such as https://10.0.0.1:6443: {why}")
            }
            ConnectError::NotInCluster { why } => write!(
                f,
                "no --kubeconfig is given and this is not a pod with a service account: {why}; give --kubeconfig (or \
                 clientConnection.kubeconfig), or --manifests to do without an apiserver"
            ),
            ConnectError::Client { server, why } => {
                write!(f, "cannot connect to the apiserver {server}: {why}")
            }
            ConnectError::Thread(source) => {
                write!(f, "cannot start the thread of the apiserver source: {source}")
            }
            ConnectError::NotInTime => write!(
                f,
                "still waiting for apiserver credentials; is the exec plugin in the kubeconfig hanging?"
            ),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Ready to speak to a server.
pub(super) struct Access {
    pub(super) client: Rc<Client>,
    pub(super) server: String,
    /// `host:port` of it.
    pub(super) host: String,
    /// The token is in a file that is renewed.
    pub(super) reads_token_file: bool,
    pub(super) issued: Option<Issued>,
}

/// What an exec plugin handed out, and the configuration by which it was asked.
#[derive(Clone)]
pub(super) struct Issued {
    by: Exec,
    credentials: Credentials,
}

impl Issued {
    /// They are good for so long at most; `None` if they do not say.
    pub(super) fn left(&self) -> Option<Duration> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let left = |expires: i64| u64::try_from(expires.saturating_sub(now)).unwrap_or(0);
        self.credentials.expires.map(left).map(Duration::from_millis)
    }
}

/// Read everything again. Nothing is asked of the server. An exec plugin is not run if what it issued before can still be used.
pub(super) async fn connect(
    settings: &Settings,
    plugin_deadline: Duration,
    usable: Option<Issued>,
) -> Result<Access, ConnectError> {
    let mut target = Target::load(settings)?;
    let server = masked(target.server.to_string().trim_end_matches('/'));
    let fail = |why| ConnectError::Client { server: server.clone(), why };
    let issued = issue(&mut target, plugin_deadline, usable).await.map_err(fail)?;
    let mut headers = headers(&target.user).map_err(|why| in_kubeconfig(settings, &why))?;
    let token_file = target.user.token_file.as_ref().map(PathBuf::from);
    if let Some(path) = &token_file {
        let token = read_token(path).map_err(|why| ConnectError::TokenFile { path: path.clone(), why })?;
        headers.insert(AUTHORIZATION, token);
    }
    let host = host_of(&target.server);
    let made = tls::client_config(&target).and_then(|tls| {
        let name = target.server_name.as_deref();
        let route = Route::new(&target.server, target.proxy.as_ref(), Arc::new(tls), name)?;
        Client::new(&target.server, &host, route, headers)
    });
    let client = Rc::new(made.map_err(fail)?);
    Ok(Access { client, server, host, reads_token_file: token_file.is_some(), issued })
}

/// Put what the exec plugin issues into its place, if there is one and nothing else says who we are.
async fn issue(
    target: &mut Target,
    deadline: Duration,
    usable: Option<Issued>,
) -> Result<Option<Issued>, String> {
    let user = &mut target.user;
    let Some(exec) = user.exec.take().filter(|_| user.token.is_none() && user.token_file.is_none()) else {
        return Ok(None);
    };
    let issued = match usable.filter(|usable| usable.by == exec) {
        Some(usable) => usable,
        None => {
            let credentials = plugin::ask(exec.clone(), target.told.clone(), deadline).await?;
            Issued { by: exec, credentials }
        }
    };
    user.token = issued.credentials.token.clone();
    if let Some((certificate, key)) = &issued.credentials.certificate {
        user.client_certificate_data = Some(base64::encode(certificate.as_bytes()));
        user.client_key_data = Some(base64::encode(key.as_bytes()));
    }
    Ok(Some(issued))
}

/// Without user and password, in case the URL contains them.
fn host_of(url: &hyper::Uri) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host().unwrap_or("none"))
}

fn in_kubeconfig(settings: &Settings, why: &str) -> ConnectError {
    let path = settings.kubeconfig.clone().unwrap_or_default();
    ConnectError::Kubeconfig { path, why: format!("the user of its context: {why}") }
}
