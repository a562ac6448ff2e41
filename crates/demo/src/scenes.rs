//! The scenes that need only questions and answers: the same among namespaces and in the interpreter.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::cast::*;
use super::screen::{Screen, Tone, count, span};
use super::tally::Tally;

/// More than a healthy sandbox ever needs.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait for an answer that is not to come.
const BRIEF: Duration = Duration::from_millis(300);
const REQUESTS: usize = 300;
const VISITS: usize = 50;

struct Row {
    title: &'static str,
    caller: Caller,
    transport: Transport,
    to: std::net::SocketAddr,
}

const ROWS: [Row; 6] = [
    Row { title: "cluster IP", caller: Caller::Frontend, transport: Transport::Tcp, to: WEB },
    Row { title: "cluster IP, IPv6", caller: Caller::Frontend, transport: Transport::Tcp, to: WEB_V6 },
    Row { title: "cluster IP, UDP", caller: Caller::Frontend, transport: Transport::Udp, to: DNS },
    Row { title: "node port", caller: Caller::Client, transport: Transport::Tcp, to: WEB_NODE_PORT },
    Row { title: "load balancer", caller: Caller::Client, transport: Transport::Tcp, to: WEB_BALANCER },
    Row {
        title: "load balancer, externalTrafficPolicy: Local",
        caller: Caller::Client,
        transport: Transport::Tcp,
        to: WEB_LOCAL_BALANCER,
    },
];

/// Requests to every kind of address. Gives how many were made, and how many of them failed.
pub(super) fn traffic(world: &mut dyn World, screen: &Screen) -> (usize, usize) {
    let mut failed = 0;
    for row in ROWS {
        let question = Question { caller: row.caller, transport: row.transport, to: row.to };
        let way = format!("{} → {}", row.caller.name(), row.to);
        let title = screen.paint(Tone::Bold, &format!("{:<44}", row.title));
        screen.line(&format!("  {title} {way}"));
        let tally = repeat(world, screen, &question);
        screen.line(&format!("    {}", sees(&tally, &question, world, screen)));
        failed += tally.failed();
    }
    (ROWS.len() * REQUESTS, failed)
}

/// Many times the same question, with bars that grow.
pub(super) fn repeat(world: &mut dyn World, screen: &Screen, question: &Question) -> Tally {
    let mut tally = Tally::default();
    for number in 0..REQUESTS {
        tally.note(world.ask(question, PATIENCE));
        if number % 10 == 0 {
            screen.draft(&format!("    {}", tally.bars(screen)));
            screen.pause(Duration::from_millis(15));
        }
    }
    screen.settle(&format!("    {}", tally.bars(screen)));
    tally
}

/// Whether the caller's address survived.
fn sees(tally: &Tally, question: &Question, world: &dyn World, screen: &Screen) -> String {
    let own = world.address_of(question.caller, question.to.ip());
    let list = |addresses: Vec<String>| addresses.join(", ");
    let seen = list(tally.seen_as().iter().map(IpAddr::to_string).collect());
    match (tally.seen_as().is_empty(), tally.seen_as().iter().all(|ip| *ip == own)) {
        (true, _) => "no answer".to_owned(),
        (false, true) => screen.paint(Tone::Dim, &format!("the pods see {seen}: the caller's own address")),
        (false, false) => {
            screen.paint(Tone::Dim, &format!("the pods see {seen}: the node's address, put in for {own}"))
        }
    }
}

/// A service without pods refuses at once.
pub(super) fn nobody_there(world: &mut dyn World, screen: &Screen) -> Option<Duration> {
    let ask = |world: &mut dyn World, to| {
        let started = Instant::now();
        let question = Question { caller: Caller::Frontend, transport: Transport::Tcp, to };
        let answer = world.ask(&question, BRIEF);
        (answer, world.keeps_time().then(|| started.elapsed()))
    };
    let (answer, took) = ask(world, EMPTY);
    screen.line(&format!("  service without pods   {EMPTY}   {}", fate(&answer, took, screen)));
    let (answer, waited) = ask(world, NO_SERVICE);
    screen.line(&format!("  no service at all      {NO_SERVICE}   {}", fate(&answer, waited, screen)));
    took
}

fn fate(answer: &Answer, took: Option<Duration>, screen: &Screen) -> String {
    match (answer, took) {
        (Answer::By { pod, .. }, _) => format!("answered by {pod}"),
        (Answer::Refused, Some(took)) => screen.paint(Tone::Good, &format!("refused after {}", span(took))),
        (Answer::Refused, None) => screen.paint(Tone::Good, "refused at once"),
        (Answer::Silence, Some(took)) => format!("no answer for {}, then we gave up", span(took)),
        (Answer::Silence, None) => "no answer ever".to_owned(),
        (Answer::Failed(why), _) => screen.paint(Tone::Bad, why),
    }
}

/// Clients with affinity come back to the pod they met first. Gives how many did not.
pub(super) fn affinity(world: &mut dyn World, screen: &Screen) -> usize {
    let mut strayed = 0;
    for (caller, to) in
        [(Caller::Frontend, CART), (Caller::Client, CART_BALANCER), (Caller::SecondClient, CART_BALANCER)]
    {
        let question = Question { caller, transport: Transport::Tcp, to };
        let mut tally = Tally::default();
        for _ in 0..VISITS {
            tally.note(world.ask(&question, PATIENCE));
        }
        let pods: Vec<&str> = tally.pods().collect();
        let verdict = match pods[..] {
            [pod] if tally.failed() == 0 => format!("{VISITS} of {VISITS} by {pod}"),
            _ => {
                strayed += 1;
                screen.paint(Tone::Bad, &format!("{}, {} failed", pods.join(", "), tally.failed()))
            }
        };
        let address = world.address_of(caller, to.ip());
        screen.line(&format!("  {:<32} {address:<15} {verdict}", caller.name()));
    }
    strayed
}

/// `no connection failed`, or how many did.
pub(super) fn failures(screen: &Screen, failed: usize, of: usize) -> String {
    match failed {
        0 => screen.paint(Tone::Good, &format!("0 of {of} connections failed")),
        _ => screen.paint(Tone::Bad, &format!("{failed} of {} failed", count(of, "connection"))),
    }
}
