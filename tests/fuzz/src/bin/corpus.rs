//! Moves inputs between the repository and the folders that libFuzzer works in.
//!
//! `corpus list` names the targets; `corpus unpack TARGET FOLDER` writes seeds and kept inputs there;
//! `corpus dictionary TARGET` prints its words as libFuzzer reads them; `corpus pack TARGET FOLDER` keeps what is in
//! the folder; `corpus show FILE` prints an input as a line to keep; `corpus run TARGET FILE` runs it once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test program may fail loudly")]

use std::fs;
use std::path::Path;

use fuzz::{Target, kept, limits, targets};

/// More of them would make the repository large and `cargo test` slow.
const MOST_KEPT: usize = 60;
const LONGEST_KEPT: usize = 2048;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => targets::ALL.iter().for_each(|target| println!("{}", target.name)),
        ["unpack", target, folder] => unpack(named(target), Path::new(folder)),
        ["dictionary", target] => dictionary(named(target)),
        ["pack", target, folder] => pack(named(target), Path::new(folder)),
        ["show", file] => println!("{}", kept::escape(&fs::read(file).expect(file))),
        ["run", target, file] => limits::run(named(target), &fs::read(file).expect(file)),
        _ => panic!(
            "corpus list | unpack TARGET FOLDER | dictionary TARGET | pack TARGET FOLDER | show FILE | run TARGET FILE"
        ),
    }
}

fn named(name: &str) -> &'static Target {
    targets::find(name).unwrap_or_else(|| panic!("no target is named {name}"))
}

fn unpack(target: &Target, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let inputs = [(target.seeds)(), kept::corpus(target), kept::regressions(target)].concat();
    for (number, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("kept-{number}")), input).unwrap();
    }
}

fn dictionary(target: &Target) {
    for word in target.dictionary {
        let hex: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        println!("\"{hex}\"");
    }
}

/// The shortest ones: libFuzzer merges into a folder only what adds coverage.
fn pack(target: &Target, folder: &Path) {
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let seeds = (target.seeds)();
    let mut inputs: Vec<Vec<u8>> =
        files.filter(|input| input.len() <= LONGEST_KEPT && !seeds.contains(input)).collect();
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    // Spread over all lengths: the longer ones reach further.
    let step = inputs.len().div_ceil(MOST_KEPT).max(1);
    let lines: Vec<String> =
        inputs.iter().rev().step_by(step).map(|input| kept::escape(input) + "\n").collect();
    let path = kept::path("corpus", target);
    fs::write(&path, lines.into_iter().rev().collect::<String>()).unwrap();
    println!("{} of {} inputs in {}", inputs.len().div_ceil(step), inputs.len(), path.display());
}
