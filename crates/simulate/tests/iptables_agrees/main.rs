//! The simulated tables against the programs: the same scripts, the same answers, the same rules afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;

use std::collections::BTreeMap;

use kernel::iptables::{Table, Tables, Terms, Toolbox, Tools, Variant};
use kernel::netns::{Namespace, privileged_test};
use simulate::iptables::Simulator;

use cases::{Answer, Case, all, setup};

/// Whether a script is taken, and what is there afterwards: tables by their first line.
type Outcome = (bool, BTreeMap<String, Vec<String>>);

/// Without what stands there only to be read.
fn by_table(saved: &str) -> BTreeMap<String, Vec<String>> {
    let lines: Vec<&str> = saved.lines().filter(|line| !line.starts_with('#')).collect();
    let sections = lines.split_inclusive(|line| *line == "COMMIT");
    let section =
        |lines: &[&str]| (lines[0].to_owned(), lines.iter().map(|line| (*line).to_owned()).collect());
    sections.map(section).collect()
}

fn simulated(case: &Case) -> Outcome {
    let mut simulator = Simulator::new(case.is_ipv6);
    simulator.restore(&setup(case.is_ipv6)).unwrap();
    let taken = simulator.restore(&case.script).is_ok();
    (taken, by_table(&Table::BOTH.map(|table| simulator.save(table).unwrap()).concat()))
}

fn real(tools: &mut Tools, case: &Case) -> Outcome {
    tools.restore(&emptied(&setup(case.is_ipv6))).unwrap();
    let taken = tools.restore(&case.script).is_ok();
    (taken, by_table(&tools.save_all().unwrap()))
}

/// A script that leaves nothing of what was there before.
fn emptied(script: &str) -> String {
    let policies = |table: &str, hooks: &[&str]| -> String {
        let hooks: String = hooks.iter().map(|hook| format!(":{hook} ACCEPT [0:0]\n")).collect();
        format!("{table}\n{hooks}-F\n-X\n")
    };
    let nat = policies("*nat", &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"]);
    let filter = policies("*filter", &["INPUT", "FORWARD", "OUTPUT"]);
    script.replace("*nat\n", &nat).replace("*filter\n", &filter)
}

#[test]
fn the_simulator_refuses_what_it_should() {
    let is_taken = |case: &Case| matches!(case.answer, Answer::Taken | Answer::TakenByNew);
    let wrong = |case: &Case| simulated(case).0 != is_taken(case);
    let wrong: Vec<Case> = all().into_iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_programs_answer_the_same() {
    privileged_test(|| {
        for variant in Variant::BOTH {
            Namespace::new().unwrap().run(|| agree(variant));
        }
    });
}

fn agree(variant: Variant) {
    let lock_file = std::env::temp_dir().join(format!("iptables-agrees-{}.lock", std::process::id()));
    let terms = Terms { lock_file: Some(lock_file.clone()), ..Terms::default() };
    let toolbox = Toolbox { terms, ..Toolbox::default() };
    let tools = [false, true].map(|is_ipv6| toolbox.of(variant, is_ipv6));
    let [Ok(mut v4), Ok(mut v6)] = tools else {
        return println!("SKIPPED: no iptables tools, {variant:?}");
    };
    let wrong: Vec<String> = all()
        .iter()
        .filter_map(|case| disagreement(if case.is_ipv6 { &mut v6 } else { &mut v4 }, case))
        .collect();
    let _ = std::fs::remove_file(lock_file);
    assert!(wrong.is_empty(), "{variant:?}:\n{}", wrong.join("\n"));
}

/// A tool may take what the simulator is strict about; what both take must look alike afterwards, and so must what
/// both refuse, where a section before the one that is refused stays.
fn disagreement(tools: &mut Tools, case: &Case) -> Option<String> {
    let (real, simulated) = (real(tools, case), simulated(case));
    let agree = match case.answer {
        Answer::Strict => true,
        Answer::TakenByNew if !real.0 => {
            println!("SKIPPED: {:?}: this kernel refuses it, see the case", case.name);
            true
        }
        Answer::Taken | Answer::TakenByNew | Answer::Refused => real == simulated,
    };
    (!agree)
        .then(|| format!("{}: {:?}\nprograms {real:#?}\nsimulator {simulated:#?}", case.name, case.script))
}
