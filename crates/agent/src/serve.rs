//! The probe server: `/healthz`, `/livez` and `/readyz`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::health::Health;

const BIND_RETRY: Duration = Duration::from_secs(5);
/// A probe that has not finished its request by then is no probe.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Bind at once, for the caller that wants to fail.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Bind, trying again for as long as it takes; `refused` hears of each failure.
pub(crate) async fn bind_patiently(address: SocketAddr, refused: impl Fn(&io::Error)) -> TcpListener {
    loop {
        match bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                tracing::error!(
                    %address, %error,
                    "Cannot serve the probes: stop what holds the port or choose another \
                     --healthz-bind-address; trying again in 5s"
                );
                refused(&error);
            }
        }
        tokio::time::sleep(BIND_RETRY).await;
    }
}

/// Answer probes for ever.
pub(crate) async fn serve(listener: TcpListener, health: Health) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "A probe connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let health = health.clone();
        tokio::task::spawn_local(async move {
            let answer = service_fn(|request| {
                let response = respond(&request, &health);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(REQUEST_DEADLINE).keep_alive(false);
            // A client that hangs up early is its own affair.
            let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

fn respond(request: &Request<Incoming>, health: &Health) -> Response<Full<Bytes>> {
    let (good, name) = match request.uri().path() {
        "/healthz" => (health.is_healthy(), "healthy"),
        "/livez" => (health.is_live(), "live"),
        "/readyz" => (health.is_ready(), "ready"),
        _ => return answer(StatusCode::NOT_FOUND, "not found; try /healthz, /livez or /readyz\n".to_owned()),
    };
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, format!("{{\"{name}\":{good}}}\n"))
}

fn answer(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
}
