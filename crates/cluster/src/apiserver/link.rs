//! The way to the apiserver: its address and credentials, renewed when they stop to work, and single requests.

use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Request, Response};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::failure::{Failure, one_line};
use super::pace::Budget;
use super::wire::{Encoding, Status};
use super::{Settings, Timing};

/// A server that takes longer to take a connection is tried again.
const CONNECT: Duration = Duration::from_secs(10);
/// The body of an error is a few lines.
const ERROR_BODY: Duration = Duration::from_secs(5);
const LARGEST_ERROR: usize = 1 << 20;
/// Credentials that do not work are read again, but not at every failure.
const RENEWAL: Duration = Duration::from_secs(1);

/// Why there is no way to the apiserver: something the operator has to mend.
#[derive(Debug)]
pub enum ConnectError {
    Kubeconfig { path: PathBuf, why: String },
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

/// Shared by everything that speaks to the apiserver.
pub(super) struct Link {
    settings: Settings,
    pub(super) timing: Timing,
    pub(super) server: String,
    client: RefCell<Client>,
    renewed: RefCell<Instant>,
    budget: RefCell<Budget>,
}

impl Link {
    pub(super) async fn open(settings: Settings, timing: Timing) -> Result<Link, ConnectError> {
        let config = load(&settings).await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = build(config, &server)?;
        let now = Instant::now();
        let budget = Budget::new(settings.qps, settings.burst, now);
        Ok(Link {
            settings,
            timing,
            server,
            client: RefCell::new(client),
            renewed: RefCell::new(now),
            budget: RefCell::new(budget),
        })
    }

    pub(super) fn node(&self) -> &str {
        &self.settings.node
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.settings.encoding
    }

    pub(super) async fn get(&self, path_and_query: &str) -> Result<Response<Body>, Failure> {
        let request = Request::get(path_and_query).header(ACCEPT, self.settings.encoding.accept());
        self.send(request, Body::empty()).await
    }

    /// A request whose answer does not matter beyond its success.
    pub(super) async fn submit(&self, request: Builder, json: Vec<u8>) -> Result<(), Failure> {
        self.send(request.header(ACCEPT, Encoding::Json.accept()), Body::from(json)).await.map(drop)
    }

    /// Within the budget, and with anything but success as a failure.
    async fn send(&self, request: Builder, body: Body) -> Result<Response<Body>, Failure> {
        let wait = self.budget.borrow_mut().spend(Instant::now());
        tokio::time::sleep(wait).await;
        let agent = concat!("kube-proxy/pointsman-", env!("CARGO_PKG_VERSION"));
        let request = request
            .header(USER_AGENT, agent)
            .body(body)
            .map_err(|error| Failure::Malformed(format!("a request that cannot be written: {error}")))?;
        let client = self.client.borrow().clone();
        let answer = tokio::time::timeout(self.timing.answer, client.send(request)).await;
        let response = answer
            .map_err(|_| Failure::Stalled(self.timing.answer))?
            .map_err(|error| Failure::of_request(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(rejection(response).await) }
    }

    /// Read address, tokens and certificates again. What cannot be read leaves the old ones in use.
    pub(super) async fn renew(&self) {
        if self.renewed.borrow().elapsed() < RENEWAL {
            return;
        }
        *self.renewed.borrow_mut() = Instant::now();
        let client = match load(&self.settings).await {
            Ok(config) => build(config, &self.server),
            Err(error) => Err(error),
        };
        match client {
            Ok(client) => *self.client.borrow_mut() = client,
            Err(error) => tracing::debug!(%error, "Credentials could not be read again"),
        }
    }
}

async fn rejection(response: Response<Body>) -> Failure {
    let code = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let retry_after = header(RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let encoding = header(CONTENT_TYPE).and_then(Encoding::of);
    let reason = response.status().canonical_reason().unwrap_or("no reason given").to_owned();
    let body =
        tokio::time::timeout(ERROR_BODY, Limited::new(response.into_body(), LARGEST_ERROR).collect()).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
    let status = body.zip(encoding).and_then(|(body, encoding)| Status::decode_any(body, encoding));
    let expired = status.as_ref().is_some_and(|status| status.reason == "Expired" || status.reason == "Gone");
    if code == 410 || expired {
        return Failure::Gone;
    }
    let message = status.map(|status| one_line(status.message)).filter(|message| !message.is_empty());
    Failure::Rejected { code, message: message.unwrap_or(reason), retry_after }
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
    let fail = |error: KubeconfigError| {
        let why = match error {
            KubeconfigError::ReadConfig(error, _) => error.to_string(),
            KubeconfigError::MissingClusterUrl => "its cluster has no server".to_owned(),
            error => one_line(error),
        };
        ConnectError::Kubeconfig { path: path.clone(), why }
    };
    let file = Kubeconfig::read_from(&path).map_err(fail)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(fail)
}

fn build(config: Config, server: &str) -> Result<Client, ConnectError> {
    Client::try_from(config)
        .map_err(|error| ConnectError::Client { server: server.to_owned(), why: one_line(error) })
}
