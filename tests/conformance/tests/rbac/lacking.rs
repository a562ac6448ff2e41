//! One right less than is shipped: what the agent cannot do then, what it says, and that it heals.

use std::fmt;

use conformance_support::log::Mark;
use conformance_support::site::Expect;
use sandbox::Server;
use test_support::NodeAgent;

use crate::account;
use crate::court::{Court, Party};
use crate::events;
use Consequence::*;

/// Belongs to no service.
const UNUSED: [u8; 4] = [10, 96, 77, 77];

/// What is missing without a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// Only a server that refuses lists as streams wants to see the right to list.
    Nothing,
    /// The rules of the run before stay, and nothing is added to them.
    NeverReady,
    /// Packets to addresses that no service has are sent on.
    RangesUnknown,
    NoEvents,
    /// Repeated events stay at one.
    NoCounts,
}

pub(crate) struct Lack {
    pub(crate) resource: &'static str,
    pub(crate) verb: &'static str,
    with_streams: Option<Consequence>,
    with_pages: Option<Consequence>,
}

const fn lack(
    resource: &'static str,
    verb: &'static str,
    with_streams: Consequence,
    with_pages: Consequence,
) -> Lack {
    Lack { resource, verb, with_streams: Some(with_streams), with_pages: Some(with_pages) }
}

/// Every right of the role once.
pub(crate) const LACKS: &[Lack] = &[
    lack("services", "list", Nothing, NeverReady),
    lack("services", "watch", NeverReady, NeverReady),
    lack("nodes", "list", Nothing, NeverReady),
    lack("nodes", "watch", NeverReady, NeverReady),
    lack("endpointslices", "list", Nothing, NeverReady),
    lack("endpointslices", "watch", NeverReady, NeverReady),
    lack("servicecidrs", "list", Nothing, RangesUnknown),
    lack("servicecidrs", "watch", RangesUnknown, RangesUnknown),
    Lack { resource: "events", verb: "create", with_streams: Some(NoEvents), with_pages: None },
    Lack { resource: "events", verb: "patch", with_streams: None, with_pages: Some(NoCounts) },
];

impl Lack {
    /// `None` where the way of lists makes no difference and the other server was asked.
    pub(crate) fn consequence(&self, streaming: bool) -> Option<Consequence> {
        if streaming { self.with_streams } else { self.with_pages }
    }

    fn right(&self) -> (&'static str, &'static str) {
        (self.resource, self.verb)
    }
}

/// Take the right away from an agent that had it, and give it back.
pub(crate) fn suffer(court: &Court, number: usize, lack: &Lack, consequence: Consequence) {
    let name = format!("without-{}-{}", lack.verb, lack.resource);
    let party = court.party(&name, 20 + 2 * u16::try_from(number).unwrap());
    account::create_like_shipped(court.api(), &name);
    let [_, shipped, _] = account::shipped();
    party.permit(&shipped["rules"], lack.right(), true);
    let mut agent = party.agent(&name);
    party.expect_first(Expect::By(&["a"]));
    agent.stop().unwrap();
    assert!(!agent.log().contains("not permitted"), "{}", agent.log());
    party.permit(&account::rules_without(lack.resource, lack.verb), lack.right(), false);

    let give_back = || party.permit(&shipped["rules"], lack.right(), true);
    match consequence {
        Nothing => unharmed(&party, &mut agent),
        NeverReady => never_ready(&party, &mut agent, lack, give_back),
        RangesUnknown => ranges_unknown(&party, &mut agent, lack, give_back),
        NoEvents => events::unwritten(&party, &mut agent, give_back),
        NoCounts => events::uncounted(&party, &mut agent),
    }
}

/// Start it, and wait until it says what it lacks.
fn launch(agent: &mut NodeAgent, lack: &Lack) {
    let mark = Mark::now(agent);
    agent.launch().unwrap();
    let refused = refusal(lack.verb, lack.resource);
    mark.await_line(agent, &["not permitted (403)", &refused, "check the ClusterRole"]);
}

/// The apiserver's words, as the log quotes them.
pub(crate) fn refusal(verb: &str, resource: &str) -> String {
    format!("cannot {verb} resource \\\"{resource}\\\"")
}

fn unharmed(party: &Party<'_>, agent: &mut NodeAgent) {
    agent.launch().unwrap();
    agent.await_ready().unwrap();
    party.point_at("b");
    party.expect_first(Expect::By(&["b"]));
    party.create_second_service();
    party.expect_second(Expect::Refused);
    assert!(!agent.log().contains("not permitted"), "{}", agent.log());
}

fn never_ready(party: &Party<'_>, agent: &mut NodeAgent, lack: &Lack, give_back: impl Fn()) {
    launch(agent, lack);
    assert_eq!(agent.probe("/readyz"), Some(503));
    party.point_at("b");
    // It goes on asking: of two refusals from now on, one is to a question that was put after the change.
    let refused = refusal(lack.verb, lack.resource);
    Mark::now(agent).await_lines(agent, &["Still failing to list or watch the apiserver", &refused], 2);
    party.expect_first(Expect::By(&["a"]));
    give_back();
    agent.await_ready().unwrap();
    party.expect_first(Expect::By(&["b"]));
}

fn ranges_unknown(party: &Party<'_>, agent: &mut NodeAgent, lack: &Lack, give_back: impl Fn()) {
    // The node sends what it does not know to the client, who has an address of the range for once.
    let sandbox = &party.site.ground.sandbox;
    sandbox.add_client_address(UNUSED.into()).unwrap();
    let outsider = Server::tcp(&sandbox.client, "outsider", (UNUSED, 80).into()).unwrap();
    party.expect(outsider.address(), Expect::Silence);
    launch(agent, lack);
    agent.await_ready().unwrap();
    party.expect(outsider.address(), Expect::By(&["outsider"]));
    party.point_at("b");
    party.expect_first(Expect::By(&["b"]));
    give_back();
    party.expect(outsider.address(), Expect::Silence);
}

impl fmt::Display for Consequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Nothing => "nothing is missing",
            NeverReady => "it never gets ready",
            RangesUnknown => "unused service addresses are not dropped",
            NoEvents => "events are not written",
            NoCounts => "events are not counted",
        })
    }
}
