//! The order of commands around the commit to nf_tables.

use std::net::IpAddr;

use kernel::ipvs::{Command, flags};
use model::Scheduler;

use super::*;

fn server(protocol: Protocol, port: u16) -> VirtualServer {
    VirtualServer { address: IpAddr::from([10, 96, 0, 10]), protocol, port }
}

const fn endpoint(last: u8) -> PlannedEndpoint {
    let ip = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, last));
    PlannedEndpoint { ip, port: 8080, may_be_own_client: false }
}

const A: PlannedEndpoint = endpoint(1);
const B: PlannedEndpoint = endpoint(2);
const C: PlannedEndpoint = endpoint(3);

fn offer(pool: &[PlannedEndpoint]) -> Offer<'_> {
    let pool = (!pool.is_empty()).then_some(pool);
    Offer { pool, affinity_seconds: None, masqueraded: false, needs_rules: true }
}

/// What is sent before the commit and after it, in words.
fn change(
    draining: &mut Draining,
    at: VirtualServer,
    old: Option<Offer<'_>>,
    new: Option<Offer<'_>>,
) -> [Vec<String>; 2] {
    change_with(IpvsSettings::default(), draining, at, old, new)
}

fn change_with(
    options: IpvsSettings,
    draining: &mut Draining,
    at: VirtualServer,
    old: Option<Offer<'_>>,
    new: Option<Offer<'_>>,
) -> [Vec<String>; 2] {
    let mut planning = Planning { draining, options: &options, now: Instant::now() };
    let offers = |offer: Option<_>| offer.map(|offer| (at, offer)).into_iter().collect::<Offers<'_>>();
    let steps = planning.change(&offers(old), &offers(new));
    [&steps.before, &steps.after].map(|batch| batch.commands().iter().map(word).collect())
}

fn word(command: &Command) -> String {
    let last = |at: &Destination| at.address.to_string().rsplit('.').next().unwrap_or_default().to_owned();
    match command {
        Command::NewService(..) => "+server".to_owned(),
        Command::SetService(..) => "=server".to_owned(),
        Command::DeleteService(_) => "-server".to_owned(),
        Command::NewDestination(_, at, _) => format!("+{}", last(at)),
        Command::SetDestination(_, at, weight) => format!("{}={weight}", last(at)),
        Command::DeleteDestination(_, at) => format!("-{}", last(at)),
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_new_address_has_its_marks_before_the_pool_and_loses_them_after_it() {
    let (draining, tcp) = (&mut Draining::default(), server(Protocol::Tcp, 80));
    let [before, after] = change(draining, tcp, None, Some(offer(&[A, B])));
    assert_eq!((before, after), (vec![], vec!["+server".into(), "+1".into(), "+2".into()]));
    let [before, after] = change(draining, tcp, Some(offer(&[A, B])), None);
    assert_eq!((before, after), (vec!["1=0".into(), "2=0".into()], vec![]));
    let unmarked = Offer { needs_rules: false, ..offer(&[A]) };
    let [before, after] = change(draining, server(Protocol::Tcp, 81), None, Some(unmarked));
    assert_eq!((before, after), (vec!["+server".into(), "+1".into()], vec![]));
}

#[test]
fn what_rules_answered_has_its_pool_before_they_cease() {
    let (draining, tcp) = (&mut Draining::default(), server(Protocol::Tcp, 80));
    let [before, after] = change(draining, tcp, Some(offer(&[])), Some(offer(&[A])));
    assert_eq!((before, after), (vec!["+server".into(), "+1".into()], vec![]));
}

#[test]
fn an_endpoint_comes_before_the_other_goes_and_the_other_drains() {
    let (draining, tcp) = (&mut Draining::default(), server(Protocol::Tcp, 80));
    let [before, after] = change(draining, tcp, Some(offer(&[A])), Some(offer(&[B])));
    assert_eq!(before, NOTHING);
    assert_eq!(after, ["+2", "1=0"]);
    assert_eq!(draining.len(), 1);
    let [_, after] = change(draining, tcp, Some(offer(&[B])), Some(offer(&[B, A])));
    assert_eq!(after, ["1=1"], "it takes connections again");
    assert_eq!(draining.len(), 0);
}

#[test]
fn flows_of_udp_do_not_drain() {
    let (draining, udp) = (&mut Draining::default(), server(Protocol::Udp, 53));
    let [_, after] = change(draining, udp, Some(offer(&[A, B])), Some(offer(&[B])));
    assert_eq!(after, ["-1"]);
    let [before, _] = change(draining, udp, Some(offer(&[B])), None);
    assert_eq!(before, ["-server"]);
}

/// It would refuse the connections that it leads to what drains.
#[test]
fn nothing_drains_where_the_scheduler_cannot_pass_it_over() {
    let (draining, tcp) = (&mut Draining::default(), server(Protocol::Tcp, 80));
    let options = IpvsSettings { scheduler: Scheduler::DestinationHash, ..IpvsSettings::default() };
    let [_, after] = change_with(options, draining, tcp, Some(offer(&[A, B])), Some(offer(&[B])));
    assert_eq!(after, ["-1"]);
    for scheduler in [Scheduler::SourceHash, Scheduler::MaglevHash] {
        let options = IpvsSettings { scheduler, ..IpvsSettings::default() };
        assert_ne!(offer(&[A]).settings(&options).flags & flags::HASH_FALLBACK, 0, "{scheduler:?}");
    }
}

#[test]
fn a_server_without_endpoints_goes_when_its_connections_have_ended() {
    let (draining, tcp) = (&mut Draining::default(), server(Protocol::Tcp, 80));
    let [before, after] = change(draining, tcp, Some(offer(&[A, B])), Some(offer(&[])));
    assert_eq!(before, NOTHING, "rules answer first");
    assert_eq!(after, ["1=0", "2=0"]);
    let mut batch = Batch::new();
    let ended = draining.ended(tcp, &[], Instant::now(), &mut batch);
    draining.forget(tcp, &ended);
    assert_eq!(batch.commands().iter().map(word).collect::<Vec<_>>(), ["-server"]);
    // Or it is used again before that.
    change(draining, tcp, None, Some(offer(&[A])));
    change(draining, tcp, Some(offer(&[A])), None);
    let [_, after] = change(draining, tcp, None, Some(offer(&[A, C])));
    assert_eq!(after, ["+server", "1=1", "+3"]);
    assert_eq!(draining.len(), 0);
}

/// A connection to an endpoint elsewhere without its mark would be answered past this node.
#[test]
fn endpoints_elsewhere_go_before_the_mark_and_come_after_it() {
    let (draining, tcp) = (&mut Draining::default(), server(Protocol::Tcp, 80));
    let cluster = |pool| Offer { masqueraded: true, ..offer(pool) };
    let [before, after] = change(draining, tcp, Some(cluster(&[A, B])), Some(offer(&[A])));
    assert_eq!((before, after), (vec!["2=0".to_owned()], vec![]));
    let [before, after] = change(draining, tcp, Some(offer(&[A])), Some(cluster(&[A, B])));
    assert_eq!((before, after), (vec![], vec!["2=1".to_owned()]));
}

#[test]
fn affinity_changes_the_server_and_not_its_pool() {
    let (draining, tcp) = (&mut Draining::default(), server(Protocol::Tcp, 80));
    let affine = Offer { affinity_seconds: Some(60), ..offer(&[A]) };
    let [before, after] = change(draining, tcp, Some(offer(&[A])), Some(affine));
    assert_eq!((before, after), (vec![], vec!["=server".to_owned()]));
}
