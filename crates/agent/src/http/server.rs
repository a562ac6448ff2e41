//! The HTTP/1.1 server under every page: bounded in connections, bytes and time.
//!
//! A client that opens connections without end, sends without end or reads nothing can make others wait for a moment;
//! it can neither fill the memory nor keep the probes from being answered.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use super::router::Router;
use super::seats::{Seat, Seats};
use super::stream::ImpatientStream;

/// From the first wait for a request to the end of its head, be it the first one or one after an answer.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// A head that is longer is refused.
const LARGEST_HEAD: usize = 16 * 1024;
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The pages of a server, which may be exchanged while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages(Rc<RefCell<Rc<Router>>>);

impl Pages {
    pub(crate) fn new(router: Router) -> Pages {
        Pages(Rc::new(RefCell::new(Rc::new(router))))
    }

    pub(crate) fn exchange(&self, router: Router) {
        *self.0.borrow_mut() = Rc::new(router);
    }

    fn now(&self) -> Rc<Router> {
        self.0.borrow().clone()
    }
}

/// Answer for as long as this is polled.
pub(crate) async fn serve(listener: TcpListener, pages: Pages, seats: Seats) {
    let mut is_refused = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                is_refused = false;
                admit(stream, pages.clone(), &seats);
                // So that it is heard before the next one comes.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                if !is_refused {
                    tracing::warn!(%error, "A connection could not be accepted");
                }
                is_refused = true;
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn admit(stream: TcpStream, pages: Pages, seats: &Seats) {
    let seat = seats.take();
    let number = seat.number();
    let task = tokio::task::spawn_local(converse(stream, pages, seat));
    seats.occupy(number, task.abort_handle());
}

async fn converse(stream: TcpStream, pages: Pages, seat: Seat) {
    let seat = &seat;
    let answer = service_fn(|request| {
        let router = pages.now();
        async move {
            seat.set_busy(true);
            let answer = router.answer(request).await;
            seat.set_busy(false);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut connection = http1::Builder::new();
    connection
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_DEADLINE)
        .max_buf_size(LARGEST_HEAD)
        .title_case_headers(true);
    // A client that hangs up early is its own affair.
    let _ = connection.serve_connection(TokioIo::new(ImpatientStream::new(stream)), answer).await;
}
