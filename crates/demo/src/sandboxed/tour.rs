//! The tour: scene after scene, then what was measured.

use std::time::Duration;

use kernel::netns::Privilege;

use super::DemoError;
use super::changes::{self, Followed};
use super::repair::{self, Repaired};
use super::scenes;
use super::screen::{Screen, Tone, count, span};
use super::stage::Stage;

/// The sandbox as it is at the beginning.
pub(super) const MAP: &str = "
  client ─────────── node ───────────────────────── other node
  192.168.60.9       192.168.50.2                   192.168.50.3
                     ├─ pod-a         10.244.1.10   └─ pod-c  10.244.2.10
                     ├─ pod-b         10.244.1.11
                     └─ pod-frontend  10.244.1.12
";

pub(super) fn play(stage: &mut Stage, screen: &Screen) -> Result<(), DemoError> {
    open(stage, screen);
    screen.heading("1. Every way to a service");
    let (requests, failed) = scenes::traffic(stage, screen);
    screen.line(&format!("  {}", scenes::failures(screen, failed, requests)));
    screen.heading("2. A pod joins");
    let joined = changes::scale_up(stage, screen)?;
    screen.heading("3. A pod leaves");
    let left = changes::scale_down(stage, screen)?;
    screen.heading("4. A service with no pod behind it");
    let refused = scenes::nobody_there(stage, screen);
    screen.heading("5. Session affinity: clients stay with the pod they met first");
    let strayed = scenes::affinity(stage, screen);
    screen.heading("6. Another process deletes the rules");
    let repaired = repair::play(stage, screen)?;
    screen.heading("Summary");
    let failed = failed + joined.failed + left.failed;
    let requests = requests + joined.requests + left.requests;
    summary(screen, stage, &joined, &left, refused, &repaired);
    let gap = count(repaired.failed, "connection");
    screen.line(&format!(
        "  {}, and {gap} in the gap after the deletion",
        scenes::failures(screen, failed, requests)
    ));
    if strayed > 0 {
        screen.line(&screen.paint(Tone::Bad, &format!("  {} strayed", count(strayed, "client"))));
    }
    next_steps(screen);
    Ok(())
}

pub(super) fn open(stage: &Stage, screen: &Screen) {
    screen.line(&screen.paint(Tone::Bold, "Pointsman: the agent at work on a small cluster in this machine"));
    screen.note(match stage.privilege {
        Privilege::Root => "  Each of these is a network namespace; nothing outside them is touched.",
        Privilege::UserNamespace => {
            "  Each of these is a network namespace, inside a user namespace of our own: no root needed."
        }
    });
    screen.line(MAP.trim_end());
    screen.line(&format!(
        "\n  5 services in a folder of manifests; all rules were in place {} after the agent's start",
        screen.paint(Tone::Number, &span(stage.start))
    ));
}

fn summary(
    screen: &Screen,
    stage: &Stage,
    joined: &Followed,
    left: &Followed,
    refused: Option<Duration>,
    repaired: &Repaired,
) {
    let row = |what: &str, time: Duration, rest: &str| {
        let time = screen.paint(Tone::Number, &format!("{:>8}", span(time)));
        screen.line(&format!("  {what:<44} {time}{rest}"));
    };
    let bytes = |commit: Option<super::commit::Commit>| {
        commit.map(|commit| format!("   {}", count(commit.bytes, "byte"))).unwrap_or_default()
    };
    row("agent started → all rules in place", stage.start, "");
    row("pod in the manifest → its first answer", joined.after, &bytes(joined.commit));
    row("pod out of the manifest → its last answer", left.after, &bytes(left.commit));
    row("connection to a service without pods refused", refused.unwrap_or_default(), "");
    row("rules deleted → traffic flows again", repaired.after, &bytes(repaired.commit));
}

fn next_steps(screen: &Screen) {
    screen.line("\nNext:");
    screen
        .line("  pointsman-demo --shell           a shell in this sandbox, with curl, nft and the manifests");
    screen.line("  kube-proxy --manifests FOLDER    the agent on this machine, with services of your own");
    screen.line("  kube-proxy --help                every flag");
}
