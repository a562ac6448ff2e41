//! The configuration file while the agent runs: the options it asks for next, or why they cannot be used. Taking them
//! on is the agent's affair.

use std::io;
use std::path::Path;
use std::thread;

use cluster::inotify::{Inotify, WatchFlags};
use config::{ConfigFile, Configuration, Resolved};
use tokio::sync::mpsc::{Receiver, channel};

/// How a text of the file would be understood, or every problem with it.
pub(crate) type Reader = fn(&ConfigFile, String) -> Result<Resolved, Vec<String>>;

/// What a new text of the file means.
#[derive(Debug)]
pub(crate) enum ConfigChange {
    Usable(Box<Resolved>),
    /// Every problem; the old configuration stays in force.
    Unusable(Vec<String>),
}

/// The file, and what is in force.
pub(crate) struct ConfigWatch {
    file: ConfigFile,
    reader: Reader,
    /// The last text that was looked at: each is judged once.
    seen: String,
    current: Configuration,
    /// The last text could not be used.
    is_refused: bool,
    /// The last look found no file.
    is_missing: bool,
    /// Something happened in the folder; absent if it cannot be watched.
    touched: Option<Receiver<()>>,
}

impl ConfigWatch {
    /// `None` without a file.
    pub(crate) fn new(start: &Resolved, reader: Reader) -> Option<ConfigWatch> {
        let file = start.options.config_file.clone()?;
        let touched = match subscribe(&file.path) {
            Ok(touched) => Some(touched),
            Err(error) => {
                tracing::error!(
                    file = %file.path.display(), %error,
                    "Failed to watch the configuration file; send SIGHUP after a change"
                );
                None
            }
        };
        let (seen, current) = (file.text.clone(), start.configuration.clone());
        Some(ConfigWatch { file, reader, seen, current, is_refused: false, is_missing: false, touched })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Wait for a text that asks for something else than what is in force. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> ConfigChange {
        loop {
            if let Some(change) = self.judge() {
                return change;
            }
            self.await_event().await;
        }
    }

    /// Judge the file once more, even if its text was judged before; an error if there is nothing to judge.
    pub(crate) fn reread(&mut self) -> Result<Option<ConfigChange>, String> {
        match config::read_file(&self.file.path) {
            Ok(text) if text.trim().is_empty() => Err("it is empty".into()),
            Ok(_) => {
                self.seen.clear();
                Ok(self.judge())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// What is in force.
    pub(crate) fn current(&self) -> &Configuration {
        &self.current
    }

    /// This is in force now.
    pub(crate) fn accept(&mut self, configuration: Configuration) {
        self.current = configuration;
    }

    /// A file that is gone or empty is about to be written, or says nothing.
    fn judge(&mut self) -> Option<ConfigChange> {
        let text = match config::read_file(&self.file.path) {
            Ok(text) => text,
            Err(error) => {
                self.miss(&error);
                return None;
            }
        };
        self.is_missing = false;
        if text == self.seen || text.trim().is_empty() {
            return None;
        }
        self.seen.clone_from(&text);
        match (self.reader)(&self.file, text) {
            Ok(resolved) if resolved.configuration == self.current => {
                if std::mem::take(&mut self.is_refused) {
                    let file = self.file.path.display();
                    tracing::info!(%file, "Configuration file is valid again and matches the settings in use");
                }
                None
            }
            Ok(resolved) => Some(ConfigChange::Usable(Box::new(resolved))),
            Err(problems) => {
                self.is_refused = true;
                Some(ConfigChange::Unusable(problems))
            }
        }
    }

    /// Said once: the settings stay, but the next start would fail.
    fn miss(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_missing, true) {
            tracing::warn!(
                file = %self.file.path.display(), %error,
                "Failed to read the configuration file; keeping the current settings, but the next start will need it"
            );
        }
    }

    async fn await_event(&mut self) {
        let Some(touched) = &mut self.touched else { return std::future::pending().await };
        if touched.recv().await.is_none() {
            // The watch broke, and said so.
            self.touched = None;
        }
    }
}

/// Hear of everything that happens in the folder of the file, on a thread that waits for it.
fn subscribe(path: &Path) -> io::Result<Receiver<()>> {
    // A mounted ConfigMap changes by a link beside the file, hence the folder.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let inotify = Inotify::new()?;
    let events = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE;
    let (path, folder) = (path.to_owned(), parent.unwrap_or(Path::new(".")).to_owned());
    inotify.watch(&folder, events)?;
    let (touch, touched) = channel(1);
    let relay = move || {
        let error = loop {
            if let Err(error) = next_event(&inotify) {
                break error;
            }
            if touch.is_closed() {
                return;
            }
            // Which event it was does not matter, and one that waits already says the same.
            let _ = touch.try_send(());
            // A folder that was deleted, or put in the place of another, is not watched any more.
            if let Err(error) = inotify.watch(&folder, events) {
                break io::Error::from(error);
            }
        };
        tracing::error!(file = %path.display(), %error, "Stopped watching the configuration file; send SIGHUP after a change");
    };
    thread::Builder::new().name("config".into()).spawn(relay)?;
    Ok(touched)
}

fn next_event(inotify: &Inotify) -> io::Result<()> {
    let mut has_come = false;
    while !has_come {
        inotify.wait(None, None)?;
        inotify.drain(|_| has_come = true)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "../tests/unit/config_watch.rs"]
mod tests;
