//! Changes at a fixed rate, each of another service, whether or not anybody keeps up with them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use conformance_support::paths;
use serde::{Deserialize, Serialize};

use crate::plane::Plane;
use crate::running::Running;
use crate::{Failure, objects};

const A_SECOND: u32 = 60;
const CLIENTS: u32 = 4;
/// Spreads the changed services over all of them.
const STRIDE: u32 = 7_919;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Churn {
    pub(crate) seconds: f64,
    pub(crate) changes: u32,
    /// Of one CPU, 1 is all of it.
    pub(crate) cpu: f64,
}

/// `turn` must differ from that of the run before, so that every change is one.
pub(crate) fn run(
    plane: &Plane,
    proxy: &Running,
    services: u32,
    length: Duration,
    turn: u32,
) -> Result<Churn, Failure> {
    let done = AtomicU32::new(0);
    let total = A_SECOND * u32::try_from(length.as_secs())?;
    let before = proxy.cpu.used()?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let work = |client| send(plane, client, total, services, turn, started, &done);
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || work(client))).collect();
        let ends = clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?);
        ends.collect::<Result<(), Failure>>()
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let used = proxy.cpu.used()?.saturating_sub(before).as_secs_f64();
    Ok(Churn { seconds, changes: done.load(Ordering::Relaxed), cpu: used / seconds })
}

/// Every `CLIENTS`th change, at the time it is due; late ones follow at once.
fn send(
    plane: &Plane,
    client: u32,
    total: u32,
    services: u32,
    turn: u32,
    started: Instant,
    done: &AtomicU32,
) -> Result<(), Failure> {
    let api = plane.another_api()?;
    for change in (client..total).step_by(CLIENTS as usize) {
        let due = started + Duration::from_secs(1) * change / A_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let number = change.wrapping_mul(STRIDE) % services;
        let slice = objects::slice(number, turn + change / services);
        api.update(&paths::object(&slice), &slice)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
