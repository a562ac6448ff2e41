//! Random cluster states: after any sequence of incremental syncs, every packet goes where the plan says, and
//! the kernel holds what a fresh start would have written. Every mode is held to it.
//!
//! A failure names its seed; `POINTSMAN_SEED=N` runs that one alone.
#![allow(clippy::unwrap_used, reason = "tests may fail loudly")]

mod generator;
mod modes;
mod oracle;
mod run;

use dataplane::iptables::Iptables;
use dataplane::nftables::Nftables;
use modes::Tested;
use scenarios::SettingsVariant;

/// Each of the eight tests runs so many states.
const STATES: u64 = 60;

fn seeds<B: Tested>(quarter: u64, variants: &[SettingsVariant]) {
    let mine = quarter * STATES..(quarter + 1) * STATES;
    match std::env::var("POINTSMAN_SEED") {
        Err(_) => mine.for_each(|seed| run::seed::<B>(seed, variants)),
        Ok(seed) => match seed.parse().unwrap() {
            seed if mine.contains(&seed) => run::seed::<B>(seed, variants),
            _ => println!("not its seed"),
        },
    }
}

fn nftables(quarter: u64) {
    seeds::<Nftables<simulate::nft::Simulator>>(quarter, &SettingsVariant::ALL);
}

fn iptables(quarter: u64) {
    seeds::<Iptables<simulate::iptables::Simulator>>(quarter, &SettingsVariant::OF_EVERY_MODE);
}

#[test]
fn first_quarter() {
    nftables(0);
}

#[test]
fn second_quarter() {
    nftables(1);
}

#[test]
fn third_quarter() {
    nftables(2);
}

#[test]
fn fourth_quarter() {
    nftables(3);
}

#[test]
fn first_quarter_of_iptables() {
    iptables(0);
}

#[test]
fn second_quarter_of_iptables() {
    iptables(1);
}

#[test]
fn third_quarter_of_iptables() {
    iptables(2);
}

#[test]
fn fourth_quarter_of_iptables() {
    iptables(3);
}
