//! Running a program with an input and an end in time.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What one `read` takes.
const CHUNK: usize = 64 * 1024;
/// Complaints beyond are read and forgotten.
const COMPLAINTS: usize = 64 * 1024;
/// Between looks at whether a program that has closed its outputs has ended.
const NAPS: Duration = Duration::from_micros(50);

pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
    pub(super) complaints: Vec<u8>,
}

/// Run `command` to its end, or kill it at the `limit`, which is `ErrorKind::TimedOut`.
///
/// Give the command nothing that needs code between fork and exec: without, it is started by `posix_spawn`,
/// which does not copy this process' page tables.
pub(super) fn run(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<Finished> {
    let deadline = Instant::now() + limit;
    command.env("LC_ALL", "C");
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let finished = converse(&mut child, input, deadline);
    if finished.is_err() {
        // Not waited for yet, so that the number is still its own.
        let _ = child.kill();
        let _ = child.wait();
    }
    finished
}

/// Write and read whatever can be, so that neither side waits for the other with a full pipe.
fn converse(child: &mut Child, input: &[u8], deadline: Instant) -> io::Result<Finished> {
    let (mut stdin, mut stdout, mut stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    if let Some(pipe) = &stdin {
        never_wait(pipe.as_raw_fd())?;
    }
    let mut rest = input;
    let (mut output, mut complaints) = (Vec::new(), Vec::new());
    while stdout.is_some() || stderr.is_some() {
        let [writable, readable, complains] =
            ready([descriptor(&stdin), descriptor(&stdout), descriptor(&stderr)], deadline)?;
        if writable && write_some(&mut stdin, &mut rest)?.is_end() {
            stdin = None;
        }
        if readable && read_some(&mut stdout, &mut output)?.is_end() {
            stdout = None;
        }
        if complains && read_some(&mut stderr, &mut complaints)?.is_end() {
            stderr = None;
        }
        complaints.truncate(COMPLAINTS);
    }
    drop(stdin);
    Ok(Finished { status: reap(child, deadline)?, output, complaints })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Open,
    Ended,
}

impl Pipe {
    fn is_end(self) -> bool {
        self == Pipe::Ended
    }
}

fn write_some(pipe: &mut Option<impl Write>, rest: &mut &[u8]) -> io::Result<Pipe> {
    let Some(pipe) = pipe else { return Ok(Pipe::Ended) };
    match pipe.write(rest) {
        Ok(written) => *rest = rest.get(written..).unwrap_or_default(),
        Err(error) if is_passing(&error) => {}
        // One that stops reading has a reason, and says it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Pipe::Ended),
        Err(error) => return Err(error),
    }
    Ok(if rest.is_empty() { Pipe::Ended } else { Pipe::Open })
}

fn read_some(pipe: &mut Option<impl Read>, into: &mut Vec<u8>) -> io::Result<Pipe> {
    let Some(pipe) = pipe else { return Ok(Pipe::Ended) };
    let filled = into.len();
    into.resize(filled + CHUNK, 0);
    let got = pipe.read(into.get_mut(filled..).unwrap_or_default());
    into.truncate(filled + got.as_ref().copied().unwrap_or(0));
    match got {
        Ok(0) => Ok(Pipe::Ended),
        Ok(_) => Ok(Pipe::Open),
        Err(error) if is_passing(&error) => Ok(Pipe::Open),
        Err(error) => Err(error),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn descriptor(pipe: &Option<impl AsRawFd>) -> RawFd {
    // poll passes over negative ones.
    pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
}

/// Which of the program's input and two outputs can be written to or read from without waiting, or have ended.
fn ready([input, output, complaints]: [RawFd; 3], deadline: Instant) -> io::Result<[bool; 3]> {
    let ask = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut asked = [ask(input, libc::POLLOUT), ask(output, libc::POLLIN), ask(complaints, libc::POLLIN)];
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let milliseconds = libc::c_int::try_from(left.as_millis() + 1).unwrap_or(libc::c_int::MAX);
    // SAFETY: pointer and length describe the exclusively borrowed array.
    if unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, milliseconds) } < 0 {
        let error = io::Error::last_os_error();
        return if is_passing(&error) { Ok([false; 3]) } else { Err(error) };
    }
    Ok(asked.map(|one| one.revents != 0))
}

fn never_wait(fd: RawFd) -> io::Result<()> {
    // SAFETY: the caller holds the descriptor open; the call takes no pointers. The flags of a new pipe's end
    // are known: none besides how it is used.
    if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A program's outputs close a moment before it has ended.
fn reap(child: &mut Child, deadline: Instant) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(NAPS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn much_goes_in_and_much_comes_out_on_both_ways() {
        let input: Vec<u8> = (0..3_000_000u32).map(|n| b'a' + (n % 26) as u8).collect();
        let finished = run(&mut shell("tee /dev/stderr"), &input, LONG).unwrap();
        assert!(finished.status.success());
        assert_eq!(finished.output, input);
        assert_eq!(finished.complaints, input[..COMPLAINTS]);
    }

    #[test]
    fn one_that_does_not_read_its_input_is_heard() {
        let finished = run(&mut shell("exec <&-; echo no >&2; exit 3"), &[b'x'; 1_000_000], LONG).unwrap();
        assert_eq!((finished.status.code(), finished.complaints), (Some(3), b"no\n".to_vec()));
    }

    #[test]
    fn one_that_never_ends_is_killed() {
        for script in ["exec sleep 600", "exec >&- 2>&- sleep 600"] {
            let started = Instant::now();
            let outcome = run(&mut shell(script), &[], Duration::from_millis(50));
            assert_eq!(outcome.err().unwrap().kind(), io::ErrorKind::TimedOut);
            assert!(started.elapsed() < LONG, "{script}");
        }
    }
}
