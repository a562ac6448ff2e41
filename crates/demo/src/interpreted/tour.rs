//! The tour in the interpreter.

use super::DemoError;
use super::Leftovers;
use super::cast::*;
use super::scenes;
use super::screen::{Screen, Tone};
use super::slices::Backed;
use super::world::{InterpretedWorld, member};

const WEB_QUESTION: Question = Question { caller: Caller::Frontend, transport: Transport::Tcp, to: WEB };

pub(in super::super) fn play(
    screen: &Screen,
    leftovers: &Leftovers,
    obstacle: &str,
) -> Result<(), DemoError> {
    screen.line(&screen.paint(Tone::Bold, "Pointsman: the agent's rules, walked through an interpreter"));
    screen.note(&format!("  No network namespaces here ({obstacle}), so no real packets."));
    let mut world = InterpretedWorld::new(leftovers.make_folder()?)?;
    let commit = world.sync()?;
    screen.line(&format!("\n  5 services, 3 pods: {commit}"));
    screen.heading("1. The way of a packet through the rules");
    trace(&mut world, screen, "pod → cluster IP", &WEB_QUESTION);
    let outside = Question { caller: Caller::Client, transport: Transport::Tcp, to: WEB_BALANCER };
    trace(&mut world, screen, "client → load balancer", &outside);
    screen.heading("2. Every way to a service");
    let (requests, failed) = scenes::traffic(&mut world, screen);
    screen.line(&format!("  {}", scenes::failures(screen, failed, requests)));
    screen.heading("3. A pod joins");
    world.members.push(member(NEWCOMER, 1, 13));
    change(&mut world, screen, &[Backed::Web])?;
    screen.heading("4. A pod leaves");
    world.members.retain(|member| member.name != LEAVER);
    change(&mut world, screen, &Backed::ALL)?;
    screen.heading("5. A service with no pod behind it");
    scenes::nobody_there(&mut world, screen);
    screen.heading("6. Session affinity: clients stay with the pod they met first");
    scenes::affinity(&mut world, screen);
    screen.heading("7. Another process deletes the rules");
    repair(&mut world, screen)?;
    screen.line("\nNext:");
    screen.line("  sudo pointsman-demo              the same with the real agent and real packets");
    screen.line("  kube-proxy --manifests FOLDER    the agent on this machine, with services of your own");
    Ok(())
}

fn change(world: &mut InterpretedWorld, screen: &Screen, services: &[Backed]) -> Result<(), DemoError> {
    let commit = world.publish(services)?;
    screen.line(&format!("  {commit}"));
    scenes::repeat(world, screen, &WEB_QUESTION);
    Ok(())
}

fn repair(world: &mut InterpretedWorld, screen: &Screen) -> Result<(), DemoError> {
    world.delete_tables()?;
    let without = world.ask(&WEB_QUESTION, std::time::Duration::ZERO);
    let commit = world.sync()?;
    let state = if matches!(without, Answer::By { .. }) { "still arrive" } else { "lead nowhere" };
    screen.line(&format!("  tables deleted: requests {state}; {commit}"));
    scenes::repeat(world, screen, &WEB_QUESTION);
    Ok(())
}

/// Every rule that did something, then the way in one line.
fn trace(world: &mut InterpretedWorld, screen: &Screen, title: &str, question: &Question) {
    let journey = world.walk(question);
    let from = world.address_of(question.caller, question.to.ip());
    screen.line(&format!("  {}   {from} → {}", screen.paint(Tone::Bold, title), question.to));
    let mut hook = None;
    let mut way: Vec<String> = Vec::new();
    for step in &journey.trace {
        if hook.replace(step.hook) != Some(step.hook) {
            screen.note(&format!("    {}", step.hook));
        }
        let mut chain = &*step.chain;
        for part in step.text.split(", ") {
            screen.line(&format!("      {chain:<20} {part}"));
            chain = "";
        }
        if way.last() != Some(&step.chain) {
            way.push(step.chain.clone());
        }
    }
    let end = match journey.delivery() {
        Some(delivery) => format!("at {}:{}, which sees {}", delivery.to, delivery.port, delivery.source),
        None => format!("{:?}", journey.outcome),
    };
    screen.line(&format!("    {}\n    → {}\n", way.join(" → "), screen.paint(Tone::Good, &end)));
}
