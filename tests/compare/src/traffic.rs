//! Asking a service repeatedly who answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use conformance_support::{Api, paths};
use sandbox::{Namespace, probe};
use serde::{Deserialize, Serialize};
use test_support::patient;

use crate::ground::{Ground, SERVERS};
use crate::running::Running;
use crate::{Failure, objects};

/// Between two questions.
const STEP: Duration = Duration::from_millis(1);
/// For one question; failures are recognised long before.
const ANSWER: Duration = Duration::from_millis(50);
const START: Duration = Duration::from_secs(300);
const CHANGE: Duration = Duration::from_secs(60);

/// Wait until every probe's service answers.
pub(crate) fn await_start(ground: &Ground, proxy: &mut Running) -> Result<Instant, Failure> {
    let deadline = proxy.started + patient(START);
    let caller = &ground.caller()?.namespace;
    let mut last = Instant::now();
    for number in 0..objects::PROBES {
        let mut looks = 0u32;
        last = loop {
            if let Some(at) = poll(caller, number, |_| true, Instant::now() + Duration::from_secs(1)) {
                break at;
            }
            looks += 1;
            proxy.check()?;
            if Instant::now() > deadline {
                let what = format!("does not steer traffic to probe {number} after {looks} s");
                return Err(proxy.complaint(&what).into());
            }
        };
    }
    Ok(last)
}

/// When the first answer came that is wanted.
fn poll(
    caller: &Namespace,
    number: u32,
    wanted: impl Fn(&str) -> bool,
    deadline: Instant,
) -> Option<Instant> {
    let to = SocketAddr::new(objects::probe_ip(number), objects::SERVICE_PORT);
    loop {
        if probe::tcp(caller, None, to, patient(ANSWER)).by().is_some_and(&wanted) {
            return Some(Instant::now());
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(STEP);
    }
}

/// One change, from the moment its request was sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct MeasuredChange {
    /// Until the apiserver answered the request.
    pub(crate) stored_ms: f64,
    /// Until a new connection reached the new endpoint.
    pub(crate) moved_ms: f64,
}

/// Let the other server answer for a probe.
pub(crate) fn change(ground: &Ground, api: &Api, turn: usize) -> Result<MeasuredChange, Failure> {
    let number = u32::try_from(turn)? % objects::PROBES;
    // Every probe begins with the first server and is changed once a round.
    let server = SERVERS[(turn / objects::PROBES as usize + 1) % 2];
    let slice = objects::probe_slice(number, ground.address_of(server)?);
    let caller = &ground.caller()?.namespace;
    std::thread::scope(|scope| {
        let poller =
            scope.spawn(|| poll(caller, number, |by| by == server, Instant::now() + patient(CHANGE)));
        let sent = Instant::now();
        api.update(&paths::object(&slice), &slice)?;
        let stored = sent.elapsed();
        let moved = poller.join().map_err(|_| "the poller panicked")?;
        let moved = moved.ok_or_else(|| format!("a change did not reach traffic within {CHANGE:?}"))?;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(MeasuredChange {
            stored_ms: millis(stored),
            moved_ms: millis(moved.saturating_duration_since(sent)),
        })
    })
}
