//! Who reads what a command prints, and whether it still does. A command that goes on for long must not outlive its reader.

use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::GOOD;

/// What cannot be polled is looked at again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Print a text as it is. Returns whether somebody still reads: who closed the pipe has read enough, which is no failure.
pub(super) fn write(text: &str) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to standard output: {error}")),
    }
}

/// End the process as soon as nobody reads any more, even if there is nothing to print; and at the end of standard input if
/// that is said to show it: a program that another machine started gets no signal when its user leaves.
pub(super) fn end_without(follows_input: bool) -> Result<(), String> {
    let watch = move || {
        let mut input = follows_input.then(io::stdin);
        while is_there(&mut input) {}
        std::process::exit(i32::from(GOOD));
    };
    let started = std::thread::Builder::new().name("reader".into()).spawn(watch);
    started.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}

/// Wait until something happens; whether the reader is still there then.
fn is_there(input: &mut Option<io::Stdin>) -> bool {
    let out = io::stdout();
    // Errors are always reported.
    let mut files = vec![PollFd::new(&out, PollFlags::empty())];
    files.extend(input.as_ref().map(|input| PollFd::new(input, PollFlags::IN)));
    if poll(&mut files, None).is_err() {
        std::thread::sleep(AGAIN);
        return true;
    }
    let is_gone = |flags: PollFlags| flags.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
    let [out, asked @ ..] = files.as_slice() else { return true };
    if is_gone(out.revents()) {
        return false;
    }
    let is_ready = asked.iter().any(|file| !file.revents().is_empty());
    match input {
        // What is typed means nothing.
        Some(input) if is_ready => input.read(&mut [0; 1024]).is_ok_and(|length| length > 0),
        _ => true,
    }
}
