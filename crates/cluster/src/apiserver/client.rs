//! Requests over HTTP/1.1 to one apiserver: what each of them carries, and connections that are used again. How a
//! connection is made is the matter of `route`.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use prost::bytes::Bytes;

use super::route::Route;

/// A connection that was not used for longer may be gone without a word.
const LONGEST_REST: Duration = Duration::from_secs(90);
/// A record of TLS is not larger. By itself a connection would grow its buffer to some 400 KiB with the first list, and
/// keep it for the watch.
const READ_BUFFER: usize = 16 * 1024;

type Connection = SendRequest<Full<Bytes>>;

/// Speaks to one apiserver, in the name of one identity.
pub(super) struct Client {
    route: Route,
    host: HeaderValue,
    /// The path of the server's URL, without a slash at its end.
    base: String,
    headers: HeaderMap,
    /// Not in use, each since a time.
    resting: Rc<RefCell<Vec<(Connection, Instant)>>>,
}

/// Why a request got no answer.
#[derive(Debug)]
pub(super) enum RequestError {
    Connect(io::Error),
    Exchange(hyper::Error),
    /// It has no place at this server.
    Address(hyper::http::Error),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Connect(error) => write!(f, "cannot connect: {error}"),
            RequestError::Exchange(error) => error.fmt(f),
            RequestError::Address(error) => error.fmt(f),
        }
    }
}

impl Error for RequestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RequestError::Connect(error) => Some(error),
            RequestError::Exchange(error) => Some(error),
            RequestError::Address(error) => Some(error),
        }
    }
}

impl Client {
    /// `headers` go with each request.
    pub(super) fn new(server: &Uri, host: &str, route: Route, headers: HeaderMap) -> Result<Client, String> {
        let host = HeaderValue::from_str(host).map_err(|error| error.to_string())?;
        let base = server.path().trim_end_matches('/').to_owned();
        Ok(Client { route, host, base, headers, resting: Rc::default() })
    }

    /// The URI of a request is a path below that of the server. Inside of a `LocalSet` only.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, RequestError> {
        let mut request = self.address(request).map_err(RequestError::Address)?;
        while let Some(mut connection) = self.take_resting() {
            match connection.try_send_request(request).await {
                Ok(response) => {
                    self.keep(connection);
                    return Ok(response);
                }
                // The server closed it before any of the request went out.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(RequestError::Exchange(error.into_error())),
                },
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(request).await.map_err(RequestError::Exchange)?;
        self.keep(connection);
        Ok(response)
    }

    fn address(&self, mut request: Request<Full<Bytes>>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let asked = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        *request.uri_mut() = format!("{}{asked}", self.base).parse()?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        Ok(request)
    }

    async fn connect(&self) -> Result<Connection, RequestError> {
        let stream = self.route.connect().await.map_err(RequestError::Connect)?;
        let mut protocol = Builder::new();
        protocol.read_buf_exact_size(Some(READ_BUFFER));
        let (connection, driver) =
            protocol.handshake(TokioIo::new(stream)).await.map_err(RequestError::Exchange)?;
        tokio::task::spawn_local(async move {
            // What goes wrong is told to those that wait for an answer.
            let _ = driver.await;
        });
        Ok(connection)
    }

    fn take_resting(&self) -> Option<Connection> {
        let mut resting = self.resting.borrow_mut();
        resting.retain(|(connection, since)| connection.is_ready() && since.elapsed() < LONGEST_REST);
        resting.pop().map(|(connection, _)| connection)
    }

    /// For the next request, as soon as the answer to this one has been read to its end.
    fn keep(&self, mut connection: Connection) {
        let resting = Rc::downgrade(&self.resting);
        tokio::task::spawn_local(async move {
            let is_ready = connection.ready().await.is_ok();
            if let Some(resting) = resting.upgrade().filter(|_| is_ready) {
                resting.borrow_mut().push((connection, Instant::now()));
            }
        });
    }
}
