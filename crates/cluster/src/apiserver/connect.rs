//! The way to the apiserver, as a kubeconfig, a flag or the pod's service account describe it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderValue};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Settings;
use super::wording::{of_credentials, of_kubeconfig, one_line};

/// A server that takes longer to take a connection is tried again.
const CONNECT: Duration = Duration::from_secs(10);

/// Why there is no way to the apiserver: something the operator has to mend.
#[derive(Debug)]
pub enum ConnectError {
    Kubeconfig { path: PathBuf, why: String },
    TokenFile { path: PathBuf, why: String },
    Master { url: String, why: String },
    NotInCluster { why: String },
    Client { server: String, why: String },
    Thread(std::io::Error),
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
                write!(f, "--master {url:?} is no URL such as https://10.0.0.1:6443: {why}")
            }
            ConnectError::NotInCluster { why } => write!(
                f,
                "no --kubeconfig is given and this is no pod with a service account: {why}; give --kubeconfig (or \
                 clientConnection.kubeconfig)"
            ),
            ConnectError::Client { server, why } => {
                write!(f, "cannot speak to the apiserver {server}: {why}")
            }
            ConnectError::Thread(source) => {
                write!(f, "cannot start the thread of the apiserver source: {source}")
            }
        }
    }
}

impl std::error::Error for ConnectError {}

/// Ready to speak to a server.
pub(super) struct Access {
    pub(super) client: Client,
    pub(super) server: String,
    /// The token is in a file that somebody renews.
    pub(super) reads_token_file: bool,
}

/// Read everything anew. Nothing is asked of the server.
pub(super) async fn connect(settings: &Settings) -> Result<Access, ConnectError> {
    let mut config = load(settings).await?;
    let token_file = config.auth_info.token_file.take().map(PathBuf::from);
    if let Some(path) = &token_file {
        // kube would send the file as it is; most end in a newline, which no header may.
        config.auth_info.token = None;
        config.headers.push((AUTHORIZATION, read_token(path)?));
    }
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = Client::try_from(config)
        .map_err(|error| ConnectError::Client { server: server.clone(), why: of_client(&error) })?;
    Ok(Access { client, server, reads_token_file: token_file.is_some() })
}

fn of_client(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(error) => of_credentials(error),
        error => one_line(error),
    }
}

fn read_token(path: &Path) -> Result<HeaderValue, ConnectError> {
    let fail = |why: String| ConnectError::TokenFile { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(fail("it is empty".to_owned()));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| fail("it holds characters that no token has".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

async fn load(settings: &Settings) -> Result<Config, ConnectError> {
    let mut config = match (&settings.kubeconfig, &settings.master) {
        (Some(path), _) => kubeconfig(path.clone()).await?,
        (None, Some(url)) => Config::new(parse_master(url)?),
        (None, None) => {
            Config::incluster().map_err(|error| ConnectError::NotInCluster { why: one_line(error) })?
        }
    };
    if let Some(url) = &settings.master {
        config.cluster_url = parse_master(url)?;
    }
    config.connect_timeout = Some(CONNECT);
    // Retries are ours: they must not hold up what we log, nor ignore our backoff.
    config.default_retry = false;
    Ok(config)
}

fn parse_master(url: &str) -> Result<hyper::Uri, ConnectError> {
    let bad = |why: String| ConnectError::Master { url: url.to_owned(), why };
    let uri: hyper::Uri = url.parse().map_err(|error| bad(one_line(error)))?;
    match uri.scheme_str() {
        Some("http" | "https") => Ok(uri),
        _ => Err(bad("it begins with neither https:// nor http://".to_owned())),
    }
}

async fn kubeconfig(path: PathBuf) -> Result<Config, ConnectError> {
    let fail = |error| ConnectError::Kubeconfig { path: path.clone(), why: of_kubeconfig(error) };
    let file = Kubeconfig::read_from(&path).map_err(fail)?;
    let user =
        missing_user(&file).map(|user| format!("its context names the user {user:?}, who is not in it"));
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(fail)?;
    match user.or_else(|| oversight(&config)) {
        Some(why) => Err(ConnectError::Kubeconfig { path, why }),
        None => Ok(config),
    }
}

/// What kube takes, and no connection can be made with.
fn oversight(config: &Config) -> Option<String> {
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Some("there is no certificate in the certificate-authority of its cluster".to_owned());
    }
    match config.cluster_url.scheme_str() {
        Some("http" | "https") => None,
        _ => Some(format!("the server {} of its cluster does not begin with https://", config.cluster_url)),
    }
}

/// kube would go on as nobody, and the server say that nobody may do anything.
fn missing_user(file: &Kubeconfig) -> Option<&str> {
    let current =
        file.contexts.iter().find(|context| Some(&context.name) == file.current_context.as_ref())?;
    let user = current.context.as_ref()?.user.as_deref().filter(|user| !user.is_empty())?;
    file.auth_infos.iter().all(|known| known.name != user).then_some(user)
}
