//! Single requests to the apiserver, within the budget, with credentials that are renewed when they stop working.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, Uri};
use prost::bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;

use super::client::RequestError;
use super::connect::{Access, ConnectError, Issued, connect};
use super::failure::Failure;
use super::observer::{Observer, RequestSeen};
use super::pace::Budget;
use super::wire::{Encoding, Status};
use super::{Settings, Timing};

/// The body of an error is a few lines.
const ERROR_BODY: Duration = Duration::from_secs(5);
const LARGEST_ERROR: usize = 1 << 20;
/// Credentials that are rejected are read again, but not by each reflector.
const AFTER_REJECTION: Duration = Duration::from_secs(1);
/// A server out of reach may have moved, or have another CA.
const AFTER_SILENCE: Duration = Duration::from_secs(30);
/// A token in a file is good for some minutes more when the next one is written.
const TOKEN_FILE: Duration = Duration::from_secs(60);

/// What an exec plugin issued is replaced so long before it expires.
const BEFORE_EXPIRY: Duration = Duration::from_secs(60);
/// A plugin that issues what expires at once is not run more often, as long as that is accepted.
const BETWEEN_PLUGINS: Duration = Duration::from_secs(10);
/// Reading files takes no time. An exec plugin that takes longer is not waited for: the old access may still work.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same complaint is made again after this time.
const REMINDER: Duration = Duration::from_secs(60);

type Answer = Result<Result<Response<Incoming>, RequestError>, Elapsed>;

/// Shared by everything that speaks to the apiserver.
pub(super) struct Link {
    settings: Settings,
    pub(super) timing: Timing,
    pub(super) observer: Arc<dyn Observer>,
    access: RefCell<Access>,
    renewed: Cell<Instant>,
    /// The credentials are being reloaded; once at a time is enough.
    is_renewing: Cell<bool>,
    complaint: RefCell<Option<(String, Instant)>>,
    budget: RefCell<Budget>,
}

impl Link {
    pub(super) async fn open(
        settings: Settings,
        timing: Timing,
        observer: Arc<dyn Observer>,
    ) -> Result<Link, ConnectError> {
        let access = connect(&settings, timing.exec_plugin, None).await?;
        let now = Instant::now();
        let budget = Budget::new(settings.qps, settings.burst, now);
        Ok(Link {
            settings,
            timing,
            observer,
            access: RefCell::new(access),
            renewed: Cell::new(now),
            is_renewing: Cell::new(false),
            complaint: RefCell::default(),
            budget: RefCell::new(budget),
        })
    }

    pub(super) fn server(&self) -> String {
        self.access.borrow().server.clone()
    }

    pub(super) fn node(&self) -> &str {
        &self.settings.node
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.settings.encoding
    }

    pub(super) async fn get(self: &Rc<Self>, path_and_query: &str) -> Result<Response<Incoming>, Failure> {
        let request = Request::get(path_and_query).header(ACCEPT, self.settings.encoding.accept());
        self.send(request, Full::default()).await
    }

    /// A request whose answer does not matter beyond its success.
    pub(super) async fn submit(self: &Rc<Self>, request: Builder, json: Vec<u8>) -> Result<(), Failure> {
        self.send(request.header(ACCEPT, Encoding::Json.accept()), Full::from(json)).await.map(drop)
    }

    /// Within the budget, and with anything but success as a failure.
    async fn send(
        self: &Rc<Self>,
        request: Builder,
        body: Full<Bytes>,
    ) -> Result<Response<Incoming>, Failure> {
        let held_back = self.budget.borrow_mut().spend(Instant::now());
        tokio::time::sleep(held_back).await;
        if self.access.borrow().reads_token_file {
            self.renew_if_older(TOKEN_FILE, Issuing::IfNeeded).await;
        }
        if self.expires_soon() && self.renewed.get().elapsed() >= BETWEEN_PLUGINS {
            // Until then they are good, so nothing waits.
            drop(self.start_renewal(Issuing::Again));
        }
        let agent = concat!("kube-proxy/pointsman-", env!("CARGO_PKG_VERSION"));
        let request = request
            .header(USER_AGENT, agent)
            .body(body)
            .map_err(|error| Failure::Malformed(format!("a request that cannot be written: {error}")))?;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let size = request.body().size_hint().lower() as usize;
        let (client, host) = {
            let access = self.access.borrow();
            (access.client.clone(), access.host.clone())
        };
        let started = Instant::now();
        let answer = tokio::time::timeout(self.timing.answer, client.send(request)).await;
        self.log(&method, &uri, &answer, started.elapsed());
        let code = answer.as_ref().ok().and_then(|answer| Some(answer.as_ref().ok()?.status().as_u16()));
        self.observer.request(&RequestSeen {
            method: method.as_str(),
            host: &host,
            code,
            held_back,
            took: started.elapsed(),
            size,
        });
        let response = answer
            .map_err(|_| Failure::Stalled(self.timing.answer))?
            .map_err(|error| Failure::of_request(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(rejection(response).await) }
    }

    /// With the keys that client-go has for it.
    fn log(&self, verb: &Method, uri: &Uri, answer: &Answer, took: Duration) {
        let milliseconds = took.as_millis() as u64;
        match answer {
            Ok(Ok(response)) => tracing::trace!(
                %verb, url = %format_args!("{}{uri}", self.server()), status = %response.status(), milliseconds,
                "Response"
            ),
            Ok(Err(error)) => tracing::trace!(
                %verb, url = %format_args!("{}{uri}", self.server()), %error, milliseconds, "No response"
            ),
            Err(_) => tracing::trace!(
                %verb, url = %format_args!("{}{uri}", self.server()), milliseconds, "No response in time"
            ),
        }
    }

    fn expires_soon(&self) -> bool {
        let left = self.access.borrow().issued.as_ref().and_then(Issued::left);
        left.is_some_and(|left| left < BEFORE_EXPIRY)
    }

    /// Read address, tokens and certificates again, where that may help.
    pub(super) async fn renew_after(self: &Rc<Self>, failure: &Failure) {
        match failure {
            Failure::Rejected { code: 401, .. } => {
                self.renew_if_older(AFTER_REJECTION, Issuing::Again).await;
            }
            Failure::Unreachable(_) | Failure::Dropped(_) => {
                self.renew_if_older(AFTER_SILENCE, Issuing::IfNeeded).await;
            }
            _ => {}
        }
    }

    async fn renew_if_older(self: &Rc<Self>, age: Duration, issuing: Issuing) {
        if self.renewed.get().elapsed() < age {
            return;
        }
        if let Some(renewal) = self.start_renewal(issuing) {
            // It goes on by itself.
            let _ = tokio::time::timeout(PATIENCE, renewal).await;
        }
    }

    /// Beside everything else: an exec plugin may take its time, or hang.
    fn start_renewal(self: &Rc<Self>, issuing: Issuing) -> Option<JoinHandle<()>> {
        if self.is_renewing.replace(true) {
            return None;
        }
        self.renewed.set(Instant::now());
        let link = self.clone();
        Some(tokio::task::spawn_local(async move {
            link.renew(issuing).await;
            link.is_renewing.set(false);
        }))
    }

    /// What cannot be read leaves the old access in use.
    async fn renew(&self, issuing: Issuing) {
        let issued = self.access.borrow().issued.clone();
        let is_usable = |issued: &Issued| issued.left().is_none_or(|left| !left.is_zero());
        let usable = issued.filter(|issued| issuing == Issuing::IfNeeded && is_usable(issued));
        match connect(&self.settings, self.timing.exec_plugin, usable).await {
            Ok(access) => *self.access.borrow_mut() = access,
            Err(error) => self.complain(&error),
        }
        // The time that a plugin took is none in which it has to rest.
        self.renewed.set(Instant::now());
    }

    fn complain(&self, error: &ConnectError) {
        let text = error.to_string();
        let is_old = |(said, at): &(String, Instant)| *said == text && at.elapsed() < REMINDER;
        if self.complaint.borrow().as_ref().is_some_and(is_old) {
            tracing::debug!(%error, "Failed to reload the apiserver credentials; keeping the previous ones");
            return;
        }
        tracing::warn!(%error, "Failed to reload the apiserver credentials; keeping the previous ones");
        *self.complaint.borrow_mut() = Some((text, Instant::now()));
    }
}

/// Whether an exec plugin is asked for credentials again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Issuing {
    /// Those it issued are refused, or about to expire.
    Again,
    /// Only if they have expired, or another plugin is configured.
    IfNeeded,
}

async fn rejection(response: Response<Incoming>) -> Failure {
    let code = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let retry_after = header(RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let encoding = header(CONTENT_TYPE).and_then(Encoding::of);
    let reason = response.status().canonical_reason().unwrap_or("no reason given").to_owned();
    let body =
        tokio::time::timeout(ERROR_BODY, Limited::new(response.into_body(), LARGEST_ERROR).collect()).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
    let status = body.zip(encoding).and_then(|(body, encoding)| Status::decode_any(body, encoding));
    let mut status = status.unwrap_or_default();
    if status.message.is_empty() {
        status.message = reason;
    }
    Failure::of_status(status, code, retry_after)
}
