//! A client of the apiserver for tests: blocking, JSON (protobuf only as bytes), one request at a time.
//!
//! It shares no code with the agent's own client, so that the two cannot be wrong together.

use std::fmt;
use std::sync::Arc;

use sandbox::Namespace;
use serde_json::Value;
use test_support::{SOON, patient};
use ureq::http::{Method, Request};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::credentials::User;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// The server's own words.
    Refused {
        status: u16,
        reason: String,
        message: String,
    },
    Unreachable(String),
    NotJson(String),
}

struct Answer {
    body: Vec<u8>,
    warnings: Vec<String>,
}

/// Requests go out from the control plane's namespace, whichever thread makes them.
#[derive(Debug)]
pub struct Api {
    agent: ureq::Agent,
    server: String,
    token: String,
    namespace: Namespace,
}

impl Api {
    pub fn new(server: &str, authority_pem: &str, user: &str, namespace: &Namespace) -> Result<Api, String> {
        let roots: Vec<Certificate<'static>> = parse_pem(authority_pem.as_bytes())
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .timeout_global(Some(patient(SOON)))
            .proxy(None)
            .build();
        Ok(Api {
            agent: config.into(),
            server: server.to_owned(),
            token: User::token(user),
            namespace: namespace.try_clone().map_err(|e| e.to_string())?,
        })
    }

    pub fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.json(Method::GET, path, "application/json", None)
    }

    /// The objects of a collection.
    pub fn list(&self, collection: &str) -> Result<Vec<Value>, ApiError> {
        let mut list = self.get(collection)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            other => Err(ApiError::NotJson(format!("{collection}: items: {other}"))),
        }
    }

    pub fn create(&self, collection: &str, object: &Value) -> Result<Value, ApiError> {
        self.json(Method::POST, collection, "application/json", Some(object))
    }

    /// Replace it as a whole.
    pub fn update(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.json(Method::PUT, path, "application/json", Some(object))
    }

    /// Merge a part into it; null removes a field.
    pub fn patch(&self, path: &str, part: &Value) -> Result<Value, ApiError> {
        self.json(Method::PATCH, path, "application/merge-patch+json", Some(part))
    }

    /// The same on the status subresource; `part` is of the form `{"status": ...}`.
    pub fn patch_status(&self, path: &str, part: &Value) -> Result<Value, ApiError> {
        self.patch(&format!("{path}/status"), part)
    }

    /// Server-side apply: create it, or set these fields.
    pub fn apply(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager=conformance&force=true");
        self.json(Method::PATCH, &path, "application/apply-patch+yaml", Some(object))
    }

    /// What the server would say to an apply, with unknown fields as errors: its warnings. Nothing is stored.
    pub fn dry_run(&self, path: &str, object: &Value) -> Result<Vec<String>, ApiError> {
        let path = format!("{path}?fieldManager=conformance&force=true&dryRun=All&fieldValidation=Strict");
        let body = object.to_string().into_bytes();
        self.answer(Method::PATCH, &path, JSON, "application/apply-patch+yaml", body)
            .map(|answer| answer.warnings)
    }

    pub fn delete(&self, path: &str) -> Result<Value, ApiError> {
        self.json(Method::DELETE, path, "application/json", None)
    }

    /// The body of whatever is at a path, if the status is 200.
    pub fn text(&self, path: &str) -> Result<String, ApiError> {
        let body = self.ask(Method::GET, path, "application/json, text/plain", JSON, Vec::new())?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// An object as protobuf spells it, envelope included.
    pub fn get_protobuf(&self, path: &str) -> Result<Vec<u8>, ApiError> {
        self.ask(Method::GET, path, PROTOBUF, JSON, Vec::new())
    }

    /// Create an object from protobuf.
    pub fn create_protobuf(&self, collection: &str, object: Vec<u8>) -> Result<(), ApiError> {
        self.ask(Method::POST, collection, JSON, PROTOBUF, object).map(drop)
    }

    /// Replace an object by one in protobuf, which can say things that JSON cannot.
    pub fn update_protobuf(&self, path: &str, object: Vec<u8>) -> Result<(), ApiError> {
        self.ask(Method::PUT, path, JSON, PROTOBUF, object).map(drop)
    }

    fn json(&self, method: Method, path: &str, kind: &str, body: Option<&Value>) -> Result<Value, ApiError> {
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let answer = self.ask(method, path, "application/json, text/plain", kind, body)?;
        serde_json::from_slice(&answer)
            .map_err(|e| ApiError::NotJson(format!("{path}: {e}: {}", String::from_utf8_lossy(&answer))))
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, ApiError> {
        self.answer(method, path, accept, kind, body).map(|answer| answer.body)
    }

    fn answer(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> Result<Answer, ApiError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", accept)
            .header("content-type", kind)
            .body(body)
            .expect("the parts of a request are well formed");
        let sent = self.namespace.try_run(|| {
            let mut answer = self.agent.run(request)?;
            let warnings = answer.headers().get_all("warning").iter();
            let warnings =
                warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
            let status = answer.status().as_u16();
            Ok((status, Answer { body: answer.body_mut().read_to_vec()?, warnings }))
        });
        let sent: Result<(u16, Answer), ureq::Error> =
            sent.map_err(|e| ApiError::Unreachable(e.to_string()))?;
        match sent {
            Ok((200..=299, answer)) => Ok(answer),
            Ok((status, answer)) => Err(refusal(status, &String::from_utf8_lossy(&answer.body))),
            Err(error) => Err(ApiError::Unreachable(format!("{path}: {error}"))),
        }
    }
}

/// The server explains itself by an object of kind Status, or by plain text.
fn refusal(status: u16, text: &str) -> ApiError {
    let object: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    ApiError::Refused {
        status,
        reason: field("reason").unwrap_or_default(),
        message: field("message").unwrap_or_else(|| text.to_owned()),
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiError::Refused { status, reason, message } => {
                write!(f, "the apiserver refuses: {status} {reason}: {message}")
            }
            ApiError::Unreachable(why) => write!(f, "the apiserver does not answer: {why}"),
            ApiError::NotJson(what) => write!(f, "not what the apiserver should answer: {what}"),
        }
    }
}

impl std::error::Error for ApiError {}
