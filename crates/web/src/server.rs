//! The HTTP/1.1 server under every page: bounded in connections, bytes and time.
//!
//! A client that opens connections without end, sends without end or reads nothing can make others wait for a moment;
//! it can neither fill the memory nor keep the probes from being answered.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::answer::Answer;
use crate::guard::FromThisNode;
use crate::router::{Asked, Router};
use crate::seats::{Seat, Seats};
use crate::stream::ImpatientStream;

/// From the first wait for a request to the end of its head, for the first one and those after an answer.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// A head that is longer is refused.
const LARGEST_HEAD: usize = 8 * 1024;
/// Connections that are accepted before those that are open have their turn.
const AT_A_TIME: usize = 32;
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The pages of a server, which may be exchanged while it runs.
#[derive(Clone, Debug)]
pub struct Pages {
    router: Rc<RefCell<Rc<Router>>>,
    /// One page at a time, so that those who ask a lot do not hold up the other servers of this thread.
    turn: Rc<Semaphore>,
}

impl Pages {
    pub fn new(router: Router) -> Pages {
        Pages { router: Rc::new(RefCell::new(Rc::new(router))), turn: Rc::new(Semaphore::new(1)) }
    }

    pub fn exchange(&self, router: Router) {
        *self.router.borrow_mut() = Rc::new(router);
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let router = self.router.borrow().clone();
        let (parts, body) = request.into_parts();
        if let Some(page) = router.slow_page(parts.uri.path()) {
            return page(Asked { parts, body }).await;
        }
        // It is never closed.
        let _turn = self.turn.acquire().await;
        let answer = router.answer(&parts);
        tokio::task::yield_now().await;
        answer
    }
}

/// Open for as long as the server lives; who came in through it leaves after the next answer.
struct Door(Rc<Cell<bool>>);

impl Drop for Door {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Answer for as long as this is polled.
pub async fn serve(listener: TcpListener, pages: Pages, seats: Seats) {
    let door = Door(Rc::new(Cell::new(true)));
    let (mut is_refused, mut in_a_row) = (false, 0);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                is_refused = false;
                admit(stream, peer.ip(), pages.clone(), &seats, door.0.clone());
                in_a_row = (in_a_row + 1) % AT_A_TIME;
                if in_a_row == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                if !is_refused {
                    let address =
                        listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
                    tracing::warn!(%address, %error, "Failed to accept a connection; retrying");
                }
                is_refused = true;
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn admit(stream: TcpStream, peer: IpAddr, pages: Pages, seats: &Seats, is_open: Rc<Cell<bool>>) {
    let seat = seats.take(peer);
    let number = seat.number();
    let task = tokio::task::spawn_local(converse(stream, pages, seat, is_open));
    seats.occupy(number, task.abort_handle());
}

/// Who calls from a loopback address is on this machine, or in a pod with its network. From the very address that is called
/// the forwarder may call, too, for a pod: an endpoint may be any address.
fn is_of_this_node(stream: &TcpStream) -> bool {
    stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
}

async fn converse(stream: TcpStream, pages: Pages, seat: Seat, is_open: Rc<Cell<bool>>) {
    let is_of_node = is_of_this_node(&stream);
    let stream = ImpatientStream::new(stream);
    let (seat, pages, spent, is_open) = (&seat, &pages, &stream.spent(), &is_open);
    let answer = service_fn(|mut request: Request<Incoming>| async move {
        if is_of_node {
            request.extensions_mut().insert(FromThisNode);
        }
        spent.reset();
        seat.set_busy(true);
        let mut answer = pages.answer(request).await;
        seat.set_busy(false);
        if seat.is_crowded() || !is_open.get() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok::<_, Infallible>(answer)
    });
    let mut connection = http1::Builder::new();
    connection
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_DEADLINE)
        .max_buf_size(LARGEST_HEAD)
        .title_case_headers(true);
    // A client that hangs up early is its own affair.
    let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
}
