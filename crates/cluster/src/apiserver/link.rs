//! Single requests to the apiserver, within the budget, with credentials that are renewed when they stop to work.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::body::Body as _;
use hyper::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response, Uri};
use kube::client::Body;
use tokio::time::error::Elapsed;

use super::connect::{Access, ConnectError, connect};
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
/// A server out of reach may have moved, or have another CA. An exec plugin runs each time.
const AFTER_SILENCE: Duration = Duration::from_secs(30);
/// A token in a file is good for some minutes more when the next one is written.
const TOKEN_FILE: Duration = Duration::from_secs(60);

type Answer = Result<Result<Response<Body>, kube::Error>, Elapsed>;

/// Shared by everything that speaks to the apiserver.
pub(super) struct Link {
    settings: Settings,
    pub(super) timing: Timing,
    pub(super) observer: Arc<dyn Observer>,
    access: RefCell<Access>,
    renewed: Cell<Instant>,
    budget: RefCell<Budget>,
}

impl Link {
    pub(super) async fn open(
        settings: Settings,
        timing: Timing,
        observer: Arc<dyn Observer>,
    ) -> Result<Link, ConnectError> {
        let access = connect(&settings).await?;
        let now = Instant::now();
        let budget = Budget::new(settings.qps, settings.burst, now);
        Ok(Link {
            settings,
            timing,
            observer,
            access: RefCell::new(access),
            renewed: Cell::new(now),
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
        let held_back = self.budget.borrow_mut().spend(Instant::now());
        tokio::time::sleep(held_back).await;
        if self.access.borrow().reads_token_file {
            self.renew_if_older(TOKEN_FILE).await;
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

    /// Read address, tokens and certificates again, where that may help.
    pub(super) async fn renew_after(&self, failure: &Failure) {
        match failure {
            Failure::Credentials(_) | Failure::Rejected { code: 401, .. } => {
                self.renew_if_older(AFTER_REJECTION).await;
            }
            Failure::Unreachable(_) | Failure::Dropped(_) => self.renew_if_older(AFTER_SILENCE).await,
            _ => {}
        }
    }

    /// What cannot be read leaves the old access in use.
    async fn renew_if_older(&self, age: Duration) {
        if self.renewed.get().elapsed() < age {
            return;
        }
        self.renewed.set(Instant::now());
        match connect(&self.settings).await {
            Ok(access) => *self.access.borrow_mut() = access,
            Err(error) => {
                tracing::warn!(%error, "The way to the apiserver cannot be read again; the last one is used")
            }
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
    let mut status = status.unwrap_or_default();
    if status.message.is_empty() {
        status.message = reason;
    }
    Failure::of_status(status, code, retry_after)
}
