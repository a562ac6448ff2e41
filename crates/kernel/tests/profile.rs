//! Samples of this very process: who burns time and who holds memory is known.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel::profile::cpu::{Denied, Sampler};
use kernel::profile::heap::{self, SamplingAllocator, Site};

#[global_allocator]
static ALLOCATOR: SamplingAllocator = SamplingAllocator;

const INTERVAL: Duration = Duration::from_millis(5);
const DEADLINE: Duration = Duration::from_secs(30);

/// There is one timer and one heap.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> Option<MutexGuard<'static, ()>> {
    if !kernel::profile::SUPPORTED {
        println!("SKIPPED: stacks cannot be walked on {}", std::env::consts::ARCH);
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Functions of this test are smaller than this, also without optimisation.
const REACH: usize = 2048;

fn is_in(function: usize, address: usize) -> bool {
    (function..function + REACH).contains(&address)
}

#[inline(never)]
fn burn(stop: &AtomicBool) -> u64 {
    let mut number = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        (0..1000).for_each(|_| number = black_box(number.wrapping_mul(31) + 1));
    }
    number
}

#[inline(never)]
fn burn_in_allocator(stop: &AtomicBool) -> u64 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let blocks: Vec<Vec<u8>> = (1..100).map(|size| black_box(vec![1_u8; size * 7])).collect();
        number += blocks.len() as u64;
    }
    number
}

/// Samples of a thread until `enough` says so.
fn sample(work: fn(&AtomicBool) -> u64, enough: impl Fn(&BTreeMap<(Vec<u8>, Vec<usize>), usize>) -> bool) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let name = std::thread::Builder::new().name("burner".to_owned());
        name.spawn_scoped(scope, || black_box(work(&stop))).unwrap();
        let mut sampler = Sampler::start(INTERVAL).unwrap();
        let mut seen = BTreeMap::new();
        let begun = Instant::now();
        while !enough(&seen) {
            std::thread::sleep(INTERVAL);
            sampler.drain(|sample| {
                *seen.entry((sample.thread.to_vec(), sample.frames.to_vec())).or_default() += 1;
            });
            if begun.elapsed() > DEADLINE {
                stop.store(true, Ordering::Relaxed);
                panic!("not what was awaited after {DEADLINE:?}: {seen:#x?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_busy_function_and_its_caller_are_seen() {
    let Some(_alone) = alone() else { return };
    let function = burn as *const () as usize;
    sample(burn, |seen| {
        let is_right = |((thread, frames), _): &(&(Vec<u8>, Vec<usize>), &usize)| {
            // Out of the function, through std, to the C library's start of a thread.
            thread == b"burner" && frames.len() > 5 && frames.iter().any(|frame| is_in(function, *frame))
        };
        seen.iter().filter(is_right).map(|(_, count)| count).sum::<usize>() > 20
    });
}

/// Inside the C library, which has no frame pointers, the callers are still found.
#[test]
fn stacks_lead_out_of_the_c_library() {
    let Some(_alone) = alone() else { return };
    let function = burn_in_allocator as *const () as usize;
    let own = kernel::profile::loaded_objects().into_iter().find(|object| object.path.is_empty()).unwrap();
    sample(burn_in_allocator, |seen| {
        let is_right = |frames: &[usize]| {
            let innermost = frames.first().is_some_and(|frame| !own.code.contains(frame));
            innermost && frames.iter().any(|frame| is_in(function, *frame))
        };
        seen.keys().any(|(_, frames)| is_right(frames))
    });
}

#[test]
fn there_is_one_sampler_at_a_time_and_afterwards_no_signal() {
    let Some(_alone) = alone() else { return };
    if handled_signals().contains("\tffffffff") {
        println!("SKIPPED: an emulator handles every signal of this process itself, so ours cannot be told");
        return;
    }
    for _ in 0..3 {
        let before = handled_signals();
        let first = Sampler::start(INTERVAL).unwrap();
        assert!(matches!(Sampler::start(INTERVAL), Err(Denied::Busy)));
        assert_ne!(handled_signals(), before, "the handler is there");
        drop(first);
        assert_eq!(handled_signals(), before, "the handler is gone");
    }
}

/// As the kernel has it: the signals this process has handlers for.
fn handled_signals() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("SigCgt:")).unwrap().to_owned()
}

/// Starting and stopping while threads are being interrupted must not lose memory, hang or crash.
#[test]
fn samplers_come_and_go_under_load() {
    let Some(_alone) = alone() else { return };
    let stop = AtomicBool::new(false);
    let mut least = usize::MAX;
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(|| black_box(burn_in_allocator(&stop)))));
        for _ in 0..100 {
            let mut sampler = Sampler::start(Duration::from_millis(1)).unwrap();
            let mut seen = 0;
            let begun = Instant::now();
            while seen == 0 && begun.elapsed() < DEADLINE {
                sampler.drain(|_| seen += 1);
            }
            least = least.min(seen);
            if least == 0 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(least > 0, "a sampler saw nothing of three busy threads");
}

#[inline(never)]
fn hold(count: usize, size: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| black_box(vec![1; size])).collect()
}

fn held_by(function: usize) -> (f64, f64) {
    let ours = |site: &Site| site.frames.iter().any(|frame| is_in(function, *frame));
    let sites = heap::sites();
    let ours = sites.iter().filter(|site| ours(site));
    ours.fold((0.0, 0.0), |(live, all), site| (live + site.live.bytes, all + site.allocated.bytes))
}

#[test]
fn memory_is_seen_where_it_was_allocated_until_it_is_freed() {
    let Some(_alone) = alone() else { return };
    let function = hold as *const () as usize;
    let unseen = hold(10_000, 1000);
    heap::set_sampling(true);
    assert_eq!(held_by(function), (0.0, 0.0), "allocated before");
    drop(unseen);
    // Some 200 samples: their number is within a third of that, but once in a million runs.
    let (count, size) = (100_000, 1000);
    let wanted = (count * size) as f64;
    let near = |bytes: f64| (wanted * 0.66..wanted * 1.34).contains(&bytes);
    let held = hold(count, size);
    let (live, all) = held_by(function);
    assert!(near(live) && near(all), "{live} and {all} of {wanted}");
    // Freed on another thread, as objects often are.
    std::thread::spawn(move || drop(held)).join().unwrap();
    let (live, all) = held_by(function);
    assert!(live.abs() < 1.0 && near(all), "{live} and {all}");
    heap::set_sampling(false);
    let held = hold(count, size);
    assert_eq!(held_by(function), (live, all), "not sampled");
    drop(held);
}
