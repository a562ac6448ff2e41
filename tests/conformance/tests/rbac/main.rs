//! What the agent needs to be permitted: the role as it is shipped suffices, and so does the apiserver's own for a
//! kube-proxy; without any single right something is missing, and the operator can see what.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod account;
mod court;
mod events;
mod lacking;
mod shipped;

use std::process::ExitCode;
use std::sync::OnceLock;

use conformance_support::Kit;
use court::Court;
use test_support::{Case, Report, Verdict};

const AT_ONCE: usize = 4;

/// Started when the first case needs it, and before any thread that could end before it.
struct Lists {
    name: &'static str,
    streaming: bool,
    court: OnceLock<Court>,
}

fn main() -> ExitCode {
    let mut report = Report::from_args();
    let kit = Kit::find_for(&report);
    let planes = [("streams", true), ("pages", false)].map(|(name, streaming)| Lists {
        name,
        streaming,
        court: OnceLock::new(),
    });
    let mut cases = Vec::new();
    for (number, lack) in lacking::LACKS.iter().enumerate() {
        for lists in &planes {
            let Some(consequence) = lack.consequence(lists.streaming) else { continue };
            let name = format!("{}: without {} on {}: {consequence}", lists.name, lack.verb, lack.resource);
            cases
                .push(lists.case(&kit, name, move |court| lacking::suffer(court, number, lack, consequence)));
        }
    }
    for lists in &planes {
        let name = |what: &str| format!("{}: {what}", lists.name);
        cases.push(lists.case(&kit, name("the role as shipped suffices"), shipped::ours));
        cases.push(lists.case(&kit, name("the role of a kube-proxy suffices"), shipped::upstream));
    }
    cases.push(planes[0].case(
        &kit,
        "events are written, and repeated ones counted".to_owned(),
        events::written,
    ));
    report.run(&cases, AT_ONCE);
    report.finish()
}

impl Lists {
    fn case<'a>(
        &'a self,
        kit: &'a Result<Kit, Verdict>,
        name: String,
        run: impl Fn(&Court) + Send + Sync + 'a,
    ) -> Case<'a> {
        conformance_support::case(name, kit, move |kit| {
            run(self.court.get_or_init(|| Court::open(kit, self.streaming)));
        })
    }
}
