//! Pods come and go under load, and we look how long traffic needs to follow.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sandbox::Namespace;
use sandbox::probe::{Hold, Pulse, UdpFlow};

use super::DemoError;
use super::cast::*;
use super::commit::Commit;
use super::load::Load;
use super::scenes::failures;
use super::screen::{Screen, Tone, span};
use super::slices::Backed;
use super::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(2);

/// What a change took, for the summary.
pub(super) struct Followed {
    /// From the rename of the manifest until traffic had followed.
    pub(super) after: Duration,
    pub(super) commit: Option<Commit>,
    pub(super) requests: usize,
    pub(super) failed: usize,
}

/// One more pod behind `web`.
pub(super) fn scale_up(stage: &mut Stage, screen: &Screen) -> Result<Followed, DemoError> {
    let newcomer = stage.add_pod(NEWCOMER)?;
    let name = format!("pod-{NEWCOMER}");
    screen.line(&format!("  {name} is up at {}; requests to {WEB} continue throughout", newcomer.v4));
    let mut load = Load::steady(stage.frontend()?, WEB, 2, PATIENCE)?;
    load.more(100)?;
    stage.members.push(newcomer);
    stage.agent.skip();
    let renamed = stage.publish(&[Backed::Web])?;
    let first = load.until(&format!("an answer from {name}"), |shot| shot.by(&name))?;
    load.more(300)?;
    let shots = load.finish();
    let failed = shots.iter().filter(|shot| !shot.answered()).count();
    let after = first.ended.saturating_duration_since(renamed);
    let followed = Followed { after, commit: stage.agent.next_commit(), requests: shots.len(), failed };
    screen.line(&format!(
        "  manifest renamed → first answer from {name} after {}",
        screen.paint(Tone::Number, &span(after))
    ));
    tell(&followed, screen);
    Ok(followed)
}

/// One pod less behind every service; then the pod itself goes.
pub(super) fn scale_down(stage: &mut Stage, screen: &Screen) -> Result<Followed, DemoError> {
    let name = format!("pod-{LEAVER}");
    let frontend = stage.frontend()?.try_clone()?;
    let mut held = hold(&frontend, &name)?;
    let flow = flow(&frontend, &name)?;
    screen
        .line(&format!("  a TCP connection and a UDP flow are open to {name}, requests continue throughout"));
    let mut load = Load::steady(&frontend, WEB, 2, PATIENCE)?;
    load.more(100)?;
    stage.members.retain(|member| member.name != LEAVER);
    stage.agent.skip();
    let renamed = stage.publish(&Backed::ALL)?;
    let (moved_to, moved) = await_move(&flow, &name, renamed)?;
    load.settled(&format!("an end of the answers from {name}"), 200, |shot| !shot.by(&name))?;
    let pulse = held.ping(PATIENCE);
    let shots = load.finish();
    let failed = shots.iter().filter(|shot| !shot.answered()).count();
    let last = shots.iter().filter(|shot| shot.by(&name)).map(|shot| shot.ended).max();
    let after = last.map_or(Duration::ZERO, |last| last.saturating_duration_since(renamed));
    let followed = Followed { after, commit: stage.agent.next_commit(), requests: shots.len(), failed };
    screen.line(&format!(
        "  manifests renamed → last answer from {name} after {}",
        screen.paint(Tone::Number, &span(after))
    ));
    screen.line(&format!("  the UDP flow moved to {moved_to} after {}", span(moved)));
    screen.line(&match pulse {
        Pulse::Alive(_) => format!("  the TCP connection to {name} stays open until {name} closes it"),
        Pulse::Closed | Pulse::Silent => screen.paint(Tone::Bad, "  the TCP connection was cut"),
    });
    tell(&followed, screen);
    drop(held);
    stage.remove_pod(LEAVER)?;
    Ok(followed)
}

fn tell(followed: &Followed, screen: &Screen) {
    if let Some(commit) = followed.commit {
        screen.line(&format!("  the agent {commit}"));
    }
    screen.line(&format!("  {}", failures(screen, followed.failed, followed.requests)));
}

/// An open connection through `web` to that very pod.
fn hold(from: &Namespace, pod: &str) -> Result<Hold, DemoError> {
    let tries = (0..200).map(|_| Hold::open(from, None, WEB, PATIENCE));
    let found = tries.filter_map(Result::ok).find(|hold| hold.by() == pod);
    found.ok_or_else(|| DemoError::NotSeen(format!("no connection reached {pod}")))
}

fn flow(from: &Namespace, pod: &str) -> Result<UdpFlow, DemoError> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let tries = (0..200).map(|_| UdpFlow::open(from, any, DNS));
    let found = tries.filter_map(Result::ok).find(|flow| flow.ask(PATIENCE).by() == Some(pod));
    found.ok_or_else(|| DemoError::NotSeen(format!("no UDP flow reached {pod}")))
}

/// Generous: the machine may be busy with other work.
const MOVE_DEADLINE: Duration = Duration::from_secs(30);

/// Ask on the same flow until another pod answers.
fn await_move(flow: &UdpFlow, pod: &str, since: Instant) -> Result<(String, Duration), DemoError> {
    while since.elapsed() < MOVE_DEADLINE {
        // Short: the answer to a question under way is lost when its flow is forgotten.
        let outcome = flow.ask(Duration::from_millis(5));
        if let Some(by) = outcome.by().filter(|by| *by != pod) {
            return Ok((by.to_owned(), since.elapsed()));
        }
    }
    Err(DemoError::NotSeen(format!("the UDP flow to {pod} did not move within {MOVE_DEADLINE:?}")))
}
