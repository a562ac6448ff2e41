//! Every target for a moment, without instrumentation: what is kept, and mutations of it, the same in each run.
//!
//! `POINTSMAN_FUZZ_ROUNDS=N` runs N mutations of each target instead.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may fail loudly")]

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fuzz::mutate::Mutator;
use fuzz::targets::Reached;
use fuzz::{Target, kept, limits, targets};

/// Mutations stop here however few they were: the machine may be slow.
const ENOUGH: Duration = Duration::from_secs(1);
const ROUNDS: usize = 20_000;
/// An input that takes so long hangs.
const HANG: Duration = Duration::from_secs(60);

/// The allocator counts for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn short(name: &str) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = targets::find(name).unwrap();
    let current = Arc::new(Mutex::new(Vec::new()));
    let (done, finished) = channel::<usize>();
    let seen = current.clone();
    let worker = std::thread::spawn(move || {
        inputs(target, |input| {
            *seen.lock().unwrap() = input.to_vec();
            limits::run(target, input);
            done.send(0).unwrap();
        });
    });
    let mut count = 0;
    loop {
        match finished.recv_timeout(HANG) {
            Ok(_) => count += 1,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{name} hangs on:\n{}", kept::escape(&current.lock().unwrap()))
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if worker.join().is_err() {
        let input = current.lock().unwrap_or_else(PoisonError::into_inner);
        panic!("{name} fails on:\n{}", kept::escape(&input));
    }
    println!("{name}: {count} inputs");
}

fn inputs(target: &Target, mut run: impl FnMut(&[u8])) {
    let known = [(target.seeds)(), kept::corpus(target), kept::regressions(target)].concat();
    known.iter().for_each(|input| run(input));
    let rounds = std::env::var("POINTSMAN_FUZZ_ROUNDS").ok().map(|rounds| rounds.parse().unwrap());
    let mut mutator = Mutator::new(1, known, target.dictionary, target.longest);
    let started = Instant::now();
    for _ in 0..rounds.unwrap_or(ROUNDS) {
        if rounds.is_none() && started.elapsed() > ENOUGH {
            break;
        }
        run(&mutator.input());
    }
}

/// Mutations of kept inputs seldom make a service large: some have to be there already.
#[test]
fn kept_inputs_reach_what_only_large_services_do() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept::corpus(targets::find("nftables_states").unwrap());
    let reached: Vec<Reached> = kept.iter().map(|input| targets::reached(input)).collect();
    let any = |what: fn(&Reached) -> bool| reached.iter().any(what);
    assert!(any(|reached| reached.shared_pools), "no pool that is shared by addresses");
    assert!(any(|reached| reached.pieces), "no service that is changed in pieces");
    assert!(any(|reached| reached.long_pool), "no pool that is changed in pieces");
}

macro_rules! short {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            short(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test() {
            // A failure would be counted as memory of whichever target runs.
            let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            let tested = [$(stringify!($name)),*];
            assert!(targets::ALL.iter().map(|target| target.name).eq(tested), "{tested:?}");
        }
    };
}

short!(
    protobuf_object
    json_object
    protobuf_watch
    json_watch
    protobuf_list
    json_list
    manifests
    configuration
    flags
    netlink
    iptables_save
    found_table
    nftables_states
    iptables_states
    ipvs_states
    userspace_states
);
