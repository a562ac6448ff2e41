//! The way to the apiserver, as a kubeconfig, a flag or the pod's service account describe it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hyper::header::{AUTHORIZATION, HeaderValue};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use secrecy::ExposeSecret;

use super::Settings;
use super::plugin::{self, Credentials};
use super::wording::{masked, of_kubeconfig, one_line};

/// A server that takes longer to take a connection is tried again.
const CONNECT: Duration = Duration::from_secs(10);

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
                 clientConnection.kubeconfig)"
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
    pub(super) client: Client,
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
    by: serde_json::Value,
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
    let mut config = load(settings).await?;
    let issued = issue(&mut config, plugin_deadline, usable).await?;
    let token_file = config.auth_info.token_file.take().map(PathBuf::from);
    let token = config.auth_info.token.take();
    // kube would send a token as it is; most files end in a newline, which no header may.
    if let Some(path) = &token_file {
        config.headers.push((AUTHORIZATION, read_token(path)?));
    } else if let Some(token) = token {
        config.headers.push((
            AUTHORIZATION,
            bearer(token.expose_secret()).map_err(|why| in_kubeconfig(settings, why))?,
        ));
    }
    let server = masked(config.cluster_url.to_string().trim_end_matches('/'));
    let host = host_of(&config.cluster_url);
    let client = Client::try_from(config)
        .map_err(|error| ConnectError::Client { server: server.clone(), why: of_client(&error) })?;
    Ok(Access { client, server, host, reads_token_file: token_file.is_some(), issued })
}

/// Put what the exec plugin issues into its place, if there is one and nothing else says who we are.
async fn issue(
    config: &mut Config,
    deadline: Duration,
    usable: Option<Issued>,
) -> Result<Option<Issued>, ConnectError> {
    let info = &mut config.auth_info;
    let Some(exec) = info.exec.take().filter(|_| info.token.is_none() && info.token_file.is_none()) else {
        return Ok(None);
    };
    let server = || masked(config.cluster_url.to_string().trim_end_matches('/'));
    let by = serde_json::to_value(&exec).unwrap_or_default();
    let issued = match usable.filter(|usable| usable.by == by) {
        Some(usable) => usable,
        None => {
            let asked = plugin::ask(exec, deadline).await;
            let credentials = asked.map_err(|why| ConnectError::Client { server: server(), why })?;
            Issued { by, credentials }
        }
    };
    info.token = issued.credentials.token.clone().map(Into::into);
    if let Some((certificate, key)) = &issued.credentials.certificate {
        info.client_certificate_data = Some(base64(certificate.as_bytes()));
        info.client_key_data = Some(base64(key.as_bytes()).into());
    }
    Ok(Some(issued))
}

/// As a kubeconfig has certificates.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().chain(&[0; 2]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for place in 0..4 {
            let digit = DIGITS.get(bits >> (18 - 6 * place) & 63).copied().unwrap_or_default();
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Without user and password, in case the URL contains them.
fn host_of(url: &hyper::Uri) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host().unwrap_or("none"))
}

fn in_kubeconfig(settings: &Settings, why: &str) -> ConnectError {
    let path = settings.kubeconfig.clone().unwrap_or_default();
    ConnectError::Kubeconfig { path, why: format!("the token of its user: {why}") }
}

fn of_client(error: &kube::Error) -> String {
    match error {
        // Its own words show the whole URL, with a password if there is one.
        kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
            "the proxy-url of its kubeconfig begins with neither http:// nor https://".to_owned()
        }
        error => one_line(error),
    }
}

fn read_token(path: &Path) -> Result<HeaderValue, ConnectError> {
    let fail = |why: String| ConnectError::TokenFile { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    bearer(&text).map_err(|why| fail(why.to_owned()))
}

fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    let token = token.trim();
    if token.is_empty() {
        return Err("it is empty");
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| "it contains characters that are not allowed in a token")?;
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
    let bad = |why: String| ConnectError::Master { url: masked(url), why };
    let uri: hyper::Uri = url.parse().map_err(|error| bad(one_line(error)))?;
    match uri.scheme_str() {
        Some("http" | "https") => Ok(uri),
        _ => Err(bad("it begins with neither https:// nor http://".to_owned())),
    }
}

async fn kubeconfig(path: PathBuf) -> Result<Config, ConnectError> {
    let fail = |error| ConnectError::Kubeconfig { path: path.clone(), why: of_kubeconfig(error) };
    let file = Kubeconfig::read_from(&path).map_err(fail)?;
    let user = missing_user(&file)
        .map(|user| format!("its context names the user {user:?}, which it does not define"));
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
        _ => Some(format!(
            "the server {} of its cluster does not begin with https://",
            masked(&config.cluster_url.to_string())
        )),
    }
}

/// kube would continue without credentials, and the server would refuse everything.
fn missing_user(file: &Kubeconfig) -> Option<&str> {
    let current =
        file.contexts.iter().find(|context| Some(&context.name) == file.current_context.as_ref())?;
    let user = current.context.as_ref()?.user.as_deref().filter(|user| !user.is_empty())?;
    file.auth_infos.iter().all(|known| known.name != user).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_others_write_it() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob\u{ff}", "Zm9vYsO/")]
        {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn tokens_are_trimmed_and_what_no_header_takes_is_an_error() {
        assert_eq!(bearer("token\n").map(|header| header.as_bytes().to_vec()), Ok(b"Bearer token".to_vec()));
        assert!(bearer("token").is_ok_and(|header| header.is_sensitive()), "never in a log");
        assert_eq!(bearer(" \n"), Err("it is empty"));
        assert_eq!(bearer("to\nken"), Err("it contains characters that are not allowed in a token"));
    }
}
