//! A server as a child process in a namespace, which can be ended in every way and started again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

use kernel::process::{Signal, die_with_parent, send_signal};
use sandbox::Namespace;
use test_support::{SOON, wait_until};

/// Dropping it kills the process.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    binary: PathBuf,
    flags: Vec<String>,
    environment: Vec<(&'static str, OsString)>,
    log: PathBuf,
    namespace: Namespace,
    child: Option<Child>,
}

impl Daemon {
    /// Not yet running. Its output goes to `NAME.log` in `folder`.
    pub fn new(
        name: &str,
        binary: &Path,
        flags: Vec<String>,
        namespace: &Namespace,
        folder: &Path,
    ) -> Result<Daemon, String> {
        let namespace = namespace.try_clone().map_err(|e| e.to_string())?;
        let (binary, log) = (binary.to_owned(), folder.join(format!("{name}.log")));
        Ok(Daemon {
            name: name.to_owned(),
            binary,
            flags,
            environment: Vec::new(),
            log,
            namespace,
            child: None,
        })
    }

    /// A variable of its environment, beside those of this process.
    pub fn with(mut self, variable: &'static str, value: impl Into<OsString>) -> Daemon {
        self.environment.push((variable, value.into()));
        self
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// `None` if it does not run.
    pub fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only if it has ended and was waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, and wait for the end.
    pub fn stop(&mut self) -> Result<ExitStatus, String> {
        let child = self.child.as_mut().ok_or_else(|| format!("{} does not run", self.name))?;
        send_signal(child.id(), Signal::Terminate).map_err(|e| format!("SIGTERM to {}: {e}", self.name))?;
        let mut status = None;
        wait_until(SOON, || {
            status = child.try_wait().ok().flatten();
            status.is_some()
        });
        let status = status.ok_or_else(|| self.complain("did not end on SIGTERM"))?;
        self.child = None;
        Ok(status)
    }

    /// Start it, and wait until `ready` says so.
    pub fn start(&mut self, mut ready: impl FnMut(&Daemon) -> bool) -> Result<(), String> {
        if self.child.is_some() {
            return Err(format!("{} runs already", self.name));
        }
        self.child = Some(self.spawn()?);
        let mut ended = None;
        let in_time = wait_until(SOON, || {
            ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            ended.is_some() || ready(self)
        });
        match ended {
            Some(status) => Err(self.complain(&format!("ended ({status})"))),
            None if !in_time => Err(self.complain("does not get ready")),
            None => Ok(()),
        }
    }

    fn spawn(&self) -> Result<Child, String> {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|e| format!("opening {}: {e}", self.log.display()))?;
        let again = log.try_clone().map_err(|e| format!("opening {} again: {e}", self.log.display()))?;
        let mut command = Command::new(&self.binary);
        command
            .args(&self.flags)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(again);
        die_with_parent(&mut command, Signal::Kill);
        self.namespace.enter(&mut command).map_err(|e| e.to_string())?;
        spawn_for_life(command).map_err(|e| format!("starting {}: {e}", self.binary.display()))
    }

    fn complain(&self, what: &str) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default();
        format!("{} {what}; the end of its log:\n{}", self.name, last.join("\n"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

type Start = Box<dyn FnOnce() + Send>;

/// Start the command from a thread that never ends: a child dies with the thread that started it, and a control
/// plane may be shared by cases that run in different threads.
fn spawn_for_life(mut command: Command) -> std::io::Result<Child> {
    static STARTER: OnceLock<Mutex<Sender<Start>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, receiver) = channel::<Start>();
        std::thread::spawn(move || receiver.into_iter().for_each(|start| start()));
        Mutex::new(sender)
    });
    let (answer, answered) = channel();
    let start: Start = Box::new(move || drop(answer.send(command.spawn())));
    starter.lock().unwrap().send(start).expect("the starting thread lives as long as the process");
    answered.recv().expect("the starting thread answers every request")
}
