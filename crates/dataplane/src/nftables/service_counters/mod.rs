//! `--service-counters`: what the kernel counted of each service port, on the page `/metrics`.
//!
//! Reading tens of thousands of counters takes a tenth of a second. So neither a sync nor a scrape does it: a
//! thread with a netlink socket of its own reads while they are scraped, and a scrape gets what was read last.

mod pace;
mod text;

pub(super) use text::METRICS;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel::nft::{self, Connection};
use model::Family;

use super::read_traffic;
use crate::metrics::{Collector, Page};
use pace::Pace;

/// What scrapes and the reading thread share; locked for a few loads and stores.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// When the page was asked for last.
    asked: Option<Instant>,
    /// What was read last, ready to be sent.
    text: Arc<str>,
}

/// Start to read while what is returned is scraped.
pub(super) fn start() -> io::Result<Arc<dyn Collector>> {
    let board = Arc::new(Board::default());
    let connection = Connection::open()?;
    let reader = board.clone();
    std::thread::Builder::new().name("counters".into()).spawn(move || reader.keep_reading(connection))?;
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

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_reading(&self, mut connection: Connection) {
        let mut pace = Pace::default();
        let mut is_failing = false;
        loop {
            self.await_turn(&pace);
            let started = Instant::now();
            match read(&mut connection) {
                Ok(text) => {
                    self.lock().text = text;
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

fn read(connection: &mut Connection) -> Result<Arc<str>, nft::Error> {
    let mut figures = Vec::new();
    for family in Family::BOTH {
        figures.push((family, read_traffic(connection, family)?));
    }
    Ok(text::families(&figures).into())
}
