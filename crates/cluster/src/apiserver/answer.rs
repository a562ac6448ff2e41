//! Reading answers of the apiserver as they arrive.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use prost::bytes::Bytes;

use super::failure::Failure;
use super::wire::{Encoding, RawEvent, Status};

/// What came within a time.
pub(super) enum Arrived {
    Data(Bytes),
    End,
    Nothing,
}

pub(super) async fn next_chunk(body: &mut Incoming, patience: Duration) -> Result<Arrived, Failure> {
    let next = async {
        loop {
            match body.frame().await {
                None => return Ok(Arrived::End),
                Some(Err(error)) => return Err(Failure::of_body(&error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Arrived::Data(data));
                    }
                }
            }
        }
    };
    tokio::time::timeout(patience, next).await.unwrap_or(Ok(Arrived::Nothing))
}

pub(super) fn encoding(response: &Response<Incoming>) -> Result<Encoding, Failure> {
    let given =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Encoding::of(given).ok_or_else(|| Failure::Malformed(format!("it is written in {given:?}")))
}

/// The object of an `ERROR`.
pub(super) fn error_event(event: RawEvent, encoding: Encoding) -> Failure {
    let status = match encoding {
        Encoding::Protobuf => prost::Message::decode(event.object).ok(),
        Encoding::Json => serde_json::from_slice(&event.object).ok(),
    };
    let status: Status = status.unwrap_or_default();
    Failure::of_status(status, 500, None)
}
