//! Sampling of processor time: SIGPROF on whichever thread runs, at a fixed rate of time spent.
//!
//! There is neither a handler nor a timer unless a [`Sampler`] lives.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::registers;
use super::ring::{Copied, Ring};
use super::unwind::{self, Module};
use super::{SUPPORTED, loaded_objects, stack};

/// The deepest stack that is handed out.
const DEEPEST: usize = 128;

/// The timer and the signal are the process's, so there can be one sampler only.
static CLAIMED: AtomicBool = AtomicBool::new(false);
/// Where the handler puts stacks; null when nothing samples.
static TARGET: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());
/// Handlers that may be using `TARGET` now.
static HANDLERS: AtomicUsize = AtomicUsize::new(0);

/// Why no samples can be taken.
#[derive(Debug)]
pub enum Denied {
    /// Another sampler lives.
    Busy,
    /// Stacks cannot be walked on this architecture.
    Architecture,
    System(io::Error),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Busy => write!(f, "another CPU profile is being taken; wait until it ends"),
            Denied::Architecture => {
                write!(f, "stacks cannot be walked on {} in this build", std::env::consts::ARCH)
            }
            Denied::System(error) => write!(f, "cannot set the profiling timer: {error}"),
        }
    }
}

impl std::error::Error for Denied {}

/// One moment of one thread.
#[derive(Debug)]
pub struct Sample<'a> {
    /// The name of the thread.
    pub thread: &'a [u8],
    /// Addresses in the code, the innermost first.
    pub frames: &'a [usize],
}

/// Takes samples until it is dropped.
pub struct Sampler {
    ring: *mut Ring,
    modules: Vec<Module>,
    before: libc::sigaction,
}

// SAFETY: the ring is owned by the sampler; the handler shares only what is synchronised in it.
unsafe impl Send for Sampler {}

impl Sampler {
    /// A sample for each `interval` of processor time that the process spends, on all threads together.
    pub fn start(interval: Duration) -> Result<Sampler, Denied> {
        if !SUPPORTED {
            return Err(Denied::Architecture);
        }
        if CLAIMED.swap(true, Ordering::AcqRel) {
            return Err(Denied::Busy);
        }
        let before = install().map_err(|error| {
            CLAIMED.store(false, Ordering::Release);
            Denied::System(error)
        })?;
        stack::find_first();
        let modules = unwind::modules(loaded_objects());
        let sampler = Sampler { ring: Box::into_raw(Box::new(Ring::new())), modules, before };
        TARGET.store(sampler.ring, Ordering::SeqCst);
        set_timer(interval).map_err(Denied::System)?;
        Ok(sampler)
    }

    /// Hand over what has come since the last call. Call it every few dozen milliseconds.
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        let modules = &self.modules;
        let mut frames = [0; DEEPEST];
        // SAFETY: the ring lives until the sampler is dropped, and is never borrowed exclusively.
        unsafe { &*self.ring }.take(|copied: &Copied| {
            let count = unwind::walk(modules, copied.registers, |address| copied.read(address), &mut frames);
            let name = copied.thread.split(|byte| *byte == 0).next().unwrap_or_default();
            each(Sample { thread: name, frames: frames.get(..count).unwrap_or_default() });
        });
    }

    /// How many samples were lost because they were not fetched in time.
    pub fn lost(&self) -> u64 {
        // SAFETY: as in `drain`.
        unsafe { &*self.ring }.lost()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        retire(self.ring, &self.before);
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

/// Stop the timer, give the signal back, and free the ring once no handler can be using it.
fn retire(ring: *mut Ring, before: &libc::sigaction) {
    // A timer that cannot be stopped fires into a handler that does nothing.
    let stopped = set_timer(Duration::ZERO).is_ok();
    TARGET.store(std::ptr::null_mut(), Ordering::SeqCst);
    if stopped {
        restore(before);
    }
    let deadline = Instant::now() + Duration::from_secs(1);
    while HANDLERS.load(Ordering::SeqCst) != 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    if HANDLERS.load(Ordering::SeqCst) == 0 {
        // SAFETY: made by Box::into_raw, and given up here only. A handler that starts now finds TARGET empty,
        // and those that began before are done. (If one is not after a second, the ring is left to it.)
        drop(unsafe { Box::from_raw(ring) });
    }
    CLAIMED.store(false, Ordering::Release);
}

extern "C" fn on_signal(_signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the address of the calling thread's errno is always valid. The interrupted code must find its
    // errno as it was.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    let kept = unsafe { *errno };
    HANDLERS.fetch_add(1, Ordering::SeqCst);
    let ring = TARGET.load(Ordering::SeqCst);
    // SAFETY: a ring in TARGET is freed only after TARGET was emptied and HANDLERS was seen to be 0; the kernel
    // hands over a valid context, because the action asks for it (SA_SIGINFO).
    let (ring, context) = unsafe { (ring.as_ref(), context.cast::<libc::ucontext_t>().as_ref()) };
    if let (Some(ring), Some(context)) = (ring, context) {
        ring.put(registers::interrupted(context));
    }
    HANDLERS.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: see above.
    unsafe { *errno = kept };
}

fn install() -> io::Result<libc::sigaction> {
    // SAFETY: sigaction is plain data for which zeroes are valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    // Not on an alternative stack: those are small, and the interrupted one has to be looked at anyway.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    swap_action(&action)
}

/// Ignoring the signal first forgets one that is still pending; by default it would end the process.
fn restore(before: &libc::sigaction) {
    // SAFETY: as in `install`.
    let mut ignore: libc::sigaction = unsafe { std::mem::zeroed() };
    ignore.sa_sigaction = libc::SIG_IGN;
    if swap_action(&ignore).is_ok() {
        let _ = swap_action(before);
    }
}

fn swap_action(action: &libc::sigaction) -> io::Result<libc::sigaction> {
    // SAFETY: zeroes are a valid value to be overwritten.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both point to live actions; the handler in `action`, if any, does only what a handler may.
    match unsafe { libc::sigaction(libc::SIGPROF, action, &mut before) } {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

unsafe extern "C" {
    /// Every C library has it; the libc crate does not name it for Linux.
    fn setitimer(which: libc::c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> libc::c_int;
}

/// Zero stops it.
fn set_timer(interval: Duration) -> io::Result<()> {
    let time = libc::timeval { tv_sec: interval.as_secs() as _, tv_usec: interval.subsec_micros() as _ };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: points to a live itimerval; no old value is asked for.
    match unsafe { setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
