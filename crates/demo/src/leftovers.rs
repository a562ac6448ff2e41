//! What must not outlive the demo: the agent's process and the folder of manifests. Namespaces need no care,
//! they go with their descriptors.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kernel::process::{self, Signal};
use tokio::signal::unix::{SignalKind, signal};

use super::DemoError;

/// How long the agent may take to stop when asked to.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Leftovers {
    held: Mutex<Held>,
    /// While a shell has the terminal, Ctrl-C is meant for what runs in it.
    in_shell: AtomicBool,
}

#[derive(Debug, Default)]
struct Held {
    folder: Option<PathBuf>,
    agent: Option<Child>,
}

impl Leftovers {
    /// Nothing yet; from now on SIGINT, SIGTERM and SIGHUP clear up and end the process.
    pub(super) fn watched() -> Result<Arc<Leftovers>, DemoError> {
        let leftovers = Arc::new(Leftovers::default());
        let watcher = Arc::clone(&leftovers);
        catch_signals(watcher).map_err(|source| DemoError::System { what: "catch signals", source })?;
        Ok(leftovers)
    }

    /// A new folder that only this user can look into.
    pub(super) fn make_folder(&self) -> Result<PathBuf, DemoError> {
        let mut held = self.held();
        let own = format!("pointsman-demo-{}", std::process::id());
        let mut path = std::env::temp_dir().join(&own);
        for attempt in 1_u8.. {
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break,
                // Of a process that was killed and had the same number.
                Err(source) if source.kind() == io::ErrorKind::AlreadyExists && attempt < u8::MAX => {
                    path.set_file_name(format!("{own}-{attempt}"));
                }
                Err(source) => return Err(DemoError::File { path, source }),
            }
        }
        held.folder = Some(path.clone());
        Ok(path)
    }

    /// Start the agent; it is taken care of from the very moment it exists.
    pub(super) fn start_agent<T>(
        &self,
        command: &mut Command,
        take: impl FnOnce(&mut Child) -> T,
    ) -> io::Result<T> {
        let mut held = self.held();
        let child = held.agent.insert(command.spawn()?);
        Ok(take(child))
    }

    /// How the agent ended, if it did.
    pub(super) fn agent_ended(&self) -> Option<ExitStatus> {
        self.held().agent.as_mut().and_then(|agent| agent.try_wait().ok().flatten())
    }

    pub(super) fn set_in_shell(&self, in_shell: bool) {
        self.in_shell.store(in_shell, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.held().clear();
    }

    /// Clear up and end the process. Nothing new can come to be held meanwhile.
    pub(super) fn leave(&self, code: i32) -> ! {
        let mut held = self.held();
        held.clear();
        std::process::exit(code)
    }

    /// The same when a signal asks for it, perhaps in the middle of a line.
    fn interrupted(&self, code: i32) -> ! {
        let mut held = self.held();
        held.clear();
        let stdout = std::io::stdout();
        if stdout.is_terminal()
            && let Ok(copy) = stdout.as_fd().try_clone_to_owned()
        {
            // Past the lock of stdout, which a thread may hold whose reader is gone.
            let _ = File::from(copy).write_all(b"\x1b[0m\nInterrupted; nothing is left behind.\n");
        }
        std::process::exit(code)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn clear(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            end(&mut agent);
        }
        if let Some(folder) = self.folder.take() {
            remove(&folder);
        }
    }
}

fn end(agent: &mut Child) {
    // An error means that it has ended already.
    let _ = process::send_signal(agent.id(), Signal::Terminate);
    let deadline = Instant::now() + PATIENCE;
    while matches!(agent.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = agent.kill();
            let _ = agent.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        let _ = writeln!(io::stderr(), "pointsman-demo: Failed to remove {}: {error}", folder.display());
    }
}

/// The handlers are in place when this returns; a thread waits for what they report.
fn catch_signals(leftovers: Arc<Leftovers>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    drop(entered);
    let wait = move || {
        loop {
            let code = runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => 128 + 2,
                    _ = terminate.recv() => 128 + 15,
                    _ = hangup.recv() => 128 + 1,
                }
            });
            if code != 128 + 2 || !leftovers.in_shell.load(Ordering::Relaxed) {
                leftovers.interrupted(code);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}
