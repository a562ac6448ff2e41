//! Answers in the shapes that Kubernetes' own components give them.

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};

use crate::body::Body;

pub type Answer = Response<Body>;

/// Anything, as `content_type` says; browsers must not guess.
pub fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Body::whole(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

pub fn json(status: StatusCode, body: String) -> Answer {
    typed(status, "application/json", body)
}

pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", body)
}

/// 200, or 503 for what is not as it should be.
pub fn status(is_good: bool) -> StatusCode {
    if is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

pub fn with_header(mut answer: Answer, name: &'static str, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(HeaderName::from_static(name), value);
    }
    answer
}

/// The code and the body.
#[cfg(any(test, feature = "reading"))]
#[allow(clippy::unwrap_used, reason = "of tests alone")]
pub fn read(answer: Answer) -> (u16, String) {
    use http_body_util::BodyExt;
    let code = answer.status().as_u16();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let body = runtime.block_on(answer.into_body().collect()).unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}
