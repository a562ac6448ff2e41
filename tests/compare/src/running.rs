//! A kube-proxy as a child process on a node, and what it has used.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench_support::gauge::Resident;
use kernel::process::{Signal, die_with_parent, send_signal};
use sandbox::Namespace;
use test_support::{patient, wait_until};

use crate::Failure;
use crate::cpu::CpuAccount;

const END: Duration = Duration::from_secs(20);
/// The longest a start may take until it has settled.
const SETTLED: Duration = Duration::from_secs(120);
/// Settled: so little CPU time in so much time.
const QUIET: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    pub(crate) started: Instant,
    pub(crate) cpu: CpuAccount,
}

impl Running {
    pub(crate) fn start(
        mut command: Command,
        namespace: &Namespace,
        log: PathBuf,
    ) -> Result<Running, Failure> {
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        die_with_parent(&mut command, Signal::Kill);
        namespace.enter(&mut command)?;
        let started = Instant::now();
        let child = command.spawn().map_err(|e| format!("starting {:?}: {e}", command.get_program()))?;
        let cpu = CpuAccount::open(child.id());
        Ok(Running { child, log, started, cpu })
    }

    /// An error if it has ended, with its last words.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            Some(status) => Err(self.complaint(&format!("ended with {status}")).into()),
            None => Ok(()),
        }
    }

    pub(crate) fn complaint(&self, what: &str) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default();
        format!("kube-proxy {what}; the end of {}:\n{}", self.log.display(), last.join("\n"))
    }

    pub(crate) fn resident(&self) -> Result<Resident, Failure> {
        Resident::of(&self.child.id().to_string()).ok_or_else(|| self.complaint("has ended").into())
    }

    /// Wait until it does next to nothing.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + patient(SETTLED);
        while Instant::now() < deadline {
            self.check()?;
            let before = self.cpu.used()?;
            std::thread::sleep(QUIET.1);
            if self.cpu.used()?.saturating_sub(before) < patient(QUIET.0) {
                return Ok(());
            }
        }
        Err(self.complaint("does not come to rest").into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Asked first, so that its children end too. It has ended already if neither can be done.
        let _ = send_signal(self.child.id(), Signal::Terminate);
        wait_until(END, || !matches!(self.child.try_wait(), Ok(None)));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
