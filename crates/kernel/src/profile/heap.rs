//! Sampling of memory: an allocator around the system's that looks at one allocation for each 512 KiB, on average.
//!
//! Off until [`set_sampling`]; then each allocation costs a look at one flag. On, it costs a subtraction, and each
//! block that is freed the look at one byte; a block that is sampled costs the walk of its stack.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

pub use super::tables::Amount;
use super::tables::{DEPTH, Tables, mix};
use super::unwind::{self, Module};
use super::{loaded_objects, registers, stack};

/// The bytes between two samples, on average.
pub const INTERVAL: usize = 512 * 1024;

/// To be the program's `#[global_allocator]`; without, there is nothing to see.
#[derive(Clone, Copy, Debug)]
pub struct SamplingAllocator;

/// Allocations from one place in the code, as estimated from samples.
#[derive(Clone, Debug)]
pub struct Site {
    /// Addresses in the code, the innermost first. Empty: places that no longer fitted into the table.
    pub frames: Vec<usize>,
    /// Since sampling began.
    pub allocated: Amount,
    /// Not freed so far.
    pub live: Amount,
}

static SAMPLING: AtomicBool = AtomicBool::new(false);
/// There may be sampled blocks, so frees have to be looked at.
static SAMPLED: AtomicBool = AtomicBool::new(false);
/// How many sampled blocks live whose address falls to each place; lets almost every free pass.
static FILTER: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
static TABLES: Mutex<Tables> = Mutex::new(Tables::EMPTY);
static MODULES: OnceLock<Vec<Module>> = OnceLock::new();

thread_local! {
    /// Bytes this thread may allocate until its next sample.
    static LEFT: Cell<isize> = const { Cell::new(0) };
    /// State of this thread's random numbers; 0 before the first.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    /// This thread is at work here: what it allocates meanwhile is not sampled.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Begin or end taking samples. Blocks from before the first time are never seen.
pub fn set_sampling(on: bool) {
    if on && registers::SUPPORTED {
        stack::find_first();
        MODULES.get_or_init(|| unwind::modules(loaded_objects()));
        SAMPLED.store(true, Ordering::Release);
    }
    SAMPLING.store(on && registers::SUPPORTED, Ordering::Release);
}

pub fn is_sampling() -> bool {
    SAMPLING.load(Ordering::Relaxed)
}

/// All places that were seen to allocate.
pub fn sites() -> Vec<Site> {
    with_tables(|tables| {
        let sites = tables.stacks().iter();
        sites
            .map(|stack| Site {
                frames: stack.frames().to_vec(),
                allocated: stack.allocated,
                live: stack.live,
            })
            .collect()
    })
    .unwrap_or_default()
}

// SAFETY: every call is handed to the system's allocator as it came, and its answer handed back; around it only
// addresses are noted, which are never followed. Nothing here unwinds.
unsafe impl GlobalAlloc for SamplingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { System.alloc(layout) };
        allocated(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { System.alloc_zeroed(layout) };
        allocated(block, layout.size());
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        freed(block);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Before, because afterwards the address may belong to another block.
        freed(block);
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { System.realloc(block, layout, size) };
        allocated(block, size);
        block
    }
}

#[inline]
fn allocated(block: *mut u8, size: usize) {
    if SAMPLING.load(Ordering::Relaxed) {
        count(block, size);
    }
}

#[inline]
fn freed(block: *mut u8) {
    if SAMPLED.load(Ordering::Relaxed) && place(block).load(Ordering::Relaxed) != 0 {
        forget(block);
    }
}

fn count(block: *mut u8, size: usize) {
    let left = LEFT.get().saturating_sub_unsigned(size);
    LEFT.set(left);
    if left < 0 {
        sample(block, size);
    }
}

#[cold]
#[inline(never)]
fn sample(block: *mut u8, size: usize) {
    if block.is_null() || INSIDE.get() {
        return;
    }
    let first = RANDOM.get() == 0;
    if first {
        // Only has to differ from thread to thread.
        RANDOM.set(mix(registers::thread_pointer() as u64 ^ block as u64) | 1);
    }
    LEFT.set(distance());
    // A thread's first allocation falls under its first distance like every other one.
    if first {
        return count(block, size);
    }
    let mut frames = [0; DEPTH + OWN];
    let here = registers::current();
    let pointer = here.stack_pointer();
    let Some((end, modules)) = stack::end(pointer).zip(MODULES.get()) else { return };
    let depth = unwind::walk(modules, here, |address| stack::read(pointer, end, address), &mut frames);
    let frames = frames.get(OWN..depth).unwrap_or_default();
    let note = |tables: &mut Tables| {
        if tables.allocated(block as usize, stands_for(size), frames) {
            // A place that is full stays so: its frees are looked up for ever, and none is missed.
            let _ =
                place(block).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_add(1));
        }
    };
    with_tables(note);
}

/// This function's own frame is of no interest.
const OWN: usize = 1;

#[cold]
#[inline(never)]
fn forget(block: *mut u8) {
    let was_sampled = with_tables(|tables| tables.freed(block as usize));
    if was_sampled == Some(true) {
        let less = |count: u8| (count != u8::MAX).then(|| count.saturating_sub(1));
        let _ = place(block).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// `None` if this thread is in here already: what it has then is its own scratch, and never sampled.
fn with_tables<T>(action: impl FnOnce(&mut Tables) -> T) -> Option<T> {
    if INSIDE.replace(true) {
        return None;
    }
    let result = action(&mut TABLES.lock().unwrap_or_else(PoisonError::into_inner));
    INSIDE.set(false);
    Some(result)
}

fn place(block: *mut u8) -> &'static AtomicU8 {
    // The remainder is below the length; a constant length lets the compiler see it.
    &FILTER[mix(block as u64 >> 4) as usize % FILTER.len()]
}

/// A block of this size is seen with the probability 1 - e^(-size/interval), and stands for that many.
fn stands_for(size: usize) -> Amount {
    let probability = -(-(size as f64) / INTERVAL as f64).exp_m1();
    let objects = if probability > 0.0 { 1.0 / probability } else { 0.0 };
    Amount { objects, bytes: objects * size as f64 }
}

/// The bytes until the next sample: exponentially distributed, so that no pattern of sizes is missed.
fn distance() -> isize {
    let mut random = RANDOM.get();
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    RANDOM.set(random);
    let fraction = ((random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    (-fraction.ln() * INTERVAL as f64) as isize
}
