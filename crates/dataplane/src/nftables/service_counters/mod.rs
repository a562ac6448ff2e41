//! `--service-counters`: what the kernel counted of each service port, on the page `/metrics`.
//!
//! Reading tens of thousands of counters takes a tenth of a second. So neither a sync nor a scrape does it: a
//! thread with a netlink socket of its own reads while they are scraped, and a scrape gets what was read last.

mod pace;
mod rates;
mod text;

pub use rates::{PortRate, Rates};
pub(crate) use text::{Figures, METRICS};

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel::nft::{self, Connection};
use model::Family;

use super::read_traffic;
use crate::metrics::{Collector, Page};
use pace::Pace;
use rates::Reading;

/// How much traffic services have.
pub trait Traffic: Send + Sync {
    /// From the last two readings; `None` until there are two recent ones. A question makes the agent read them again.
    fn rates(&self) -> Option<Arc<Rates>>;
}

/// What scrapes and the reading thread share; locked for a few loads and stores.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// When the page was asked for last.
    asked: Option<Instant>,
    /// What was read last, ready to be sent.
    text: Arc<str>,
    last: Option<Reading>,
    rates: Option<Arc<Rates>>,
}

/// Start to read while what is returned is scraped.
pub(crate) fn start() -> io::Result<Arc<Board>> {
    let mut connection = Connection::open()?;
    start_reading(move || {
        let mut figures = Vec::new();
        for family in Family::BOTH {
            figures.push((family, read_traffic(&mut connection, family)?));
        }
        Ok::<_, nft::Error>(figures)
    })
}

/// The same for a mode that counts elsewhere.
pub(crate) fn start_reading<E: fmt::Display>(
    read: impl FnMut() -> Result<Vec<Figures>, E> + Send + 'static,
) -> io::Result<Arc<Board>> {
    let board = Arc::new(Board::default());
    let reader = board.clone();
    std::thread::Builder::new().name("counters".into()).spawn(move || reader.keep_reading(read))?;
    Ok(board)
}

impl Collector for Board {
    fn collect(&self, page: &mut Page) {
        let text = {
            let mut state = self.lock();
            state.asked = Some(Instant::now());
            state.text.clone()
        };
        self.news.notify_one();
        page.append(&text);
    }
}

impl Traffic for Board {
    fn rates(&self) -> Option<Arc<Rates>> {
        let now = Instant::now();
        let mut state = self.lock();
        state.asked = Some(now);
        let is_of_now = state.last.as_ref().is_some_and(|last| last.is_of_now(now));
        let rates = state.rates.clone().filter(|_| is_of_now);
        drop(state);
        self.news.notify_one();
        rates
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_reading<E: fmt::Display>(&self, mut read: impl FnMut() -> Result<Vec<Figures>, E>) {
        let mut pace = Pace::default();
        let mut is_failing = false;
        loop {
            self.await_turn(&pace);
            let started = Instant::now();
            match read() {
                Ok(figures) => {
                    let text = text::families(&figures).into();
                    self.show(text, Reading::new(started, figures));
                    is_failing = false;
                }
                Err(error) if !is_failing => {
                    tracing::warn!(%error, "Failed to read the service counters; /metrics shows the last values");
                    is_failing = true;
                }
                Err(_) => {}
            }
            pace.done(started, Instant::now());
        }
    }

    fn show(&self, text: Arc<str>, reading: Reading) {
        let before = self.lock().last.take();
        let rates = before.and_then(|before| reading.since(&before)).map(Arc::new);
        let mut state = self.lock();
        (state.text, state.rates, state.last) = (text, rates, Some(reading));
    }

    /// Sleep until figures are wanted that are newer than the last.
    fn await_turn(&self, pace: &Pace) {
        let mut state = self.lock();
        loop {
            state = match pace.wait(state.asked, Instant::now()) {
                Some(Duration::ZERO) => return,
                Some(wait) => self
                    .news
                    .wait_timeout(state, wait)
                    .map_or_else(|poisoned| poisoned.into_inner().0, |held| held.0),
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
