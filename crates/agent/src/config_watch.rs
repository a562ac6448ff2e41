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
        match std::fs::read_to_string(&self.file.path) {
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
        let text = match std::fs::read_to_string(&self.file.path) {
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
mod tests {
    use super::*;
    use config::DefaultMode;
    use config::flags::reconsider;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::time::Duration;

    /// As the kubelet mounts a ConfigMap: `config.conf` → `..data/config.conf`, `..data` → a dated folder.
    struct Mount(PathBuf);

    impl Mount {
        fn create(name: &str) -> Mount {
            let path = std::env::temp_dir().join(format!("pointsman-mount-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            let mount = Mount(path);
            mount.publish("1", &text(""));
            symlink("..data/config.conf", mount.0.join("config.conf")).unwrap();
            mount
        }

        fn publish(&self, version: &str, text: &str) {
            fs::create_dir(self.0.join(version)).unwrap();
            fs::write(self.0.join(version).join("config.conf"), text).unwrap();
            symlink(version, self.0.join("..data_tmp")).unwrap();
            fs::rename(self.0.join("..data_tmp"), self.0.join("..data")).unwrap();
        }

        fn file(&self) -> ConfigFile {
            let path = self.0.join("config.conf");
            // A flag that counts beside the file is part of what it means.
            let arguments = vec![format!("--config={}", path.display()), "--hostname-override=n".into()];
            ConfigFile { path, text: text(""), arguments }
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn text(body: &str) -> String {
        format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{body}")
    }

    fn reread(file: &ConfigFile, text: String) -> Result<Resolved, Vec<String>> {
        reconsider(file, text, DefaultMode::nftables)
    }

    fn watch(file: &ConfigFile) -> ConfigWatch {
        let mut start = reread(file, file.text.clone()).unwrap();
        start.options.config_file = Some(file.clone());
        ConfigWatch::new(&start, reread).unwrap()
    }

    /// Wait for a usable change after `change` was made; its OOM score.
    fn score_after(file: &ConfigFile, change: impl FnOnce()) -> i32 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut watch = watch(file);
            change();
            let usable = async {
                loop {
                    if let ConfigChange::Usable(resolved) = watch.next().await {
                        return resolved.options.node.oom_score_adj;
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(10), usable).await.unwrap()
        })
    }

    #[test]
    fn a_new_version_of_a_config_map_is_a_change() {
        let mount = Mount::create("swap");
        assert_eq!(score_after(&mount.file(), || mount.publish("2", &text("oomScoreAdj: 5\n"))), 5);
    }

    #[test]
    fn a_plain_file_that_is_written_is_a_change() {
        let mount = Mount::create("plain");
        let path = mount.0.join("plain.conf");
        fs::write(&path, text("")).unwrap();
        let arguments = vec![format!("--config={}", path.display())];
        let file = ConfigFile { arguments, path: path.clone(), text: text("") };
        let score = score_after(&file, || {
            fs::write(&path, "kind: [").unwrap();
            fs::write(&path, text("mode: ebpf\n")).unwrap();
            fs::write(&path, text("oomScoreAdj: 5\n")).unwrap();
        });
        assert_eq!(score, 5);
    }

    #[test]
    fn a_change_before_the_watch_is_not_missed() {
        let mount = Mount::create("early");
        let file = mount.file();
        mount.publish("2", &text("oomScoreAdj: 5\n"));
        assert_eq!(score_after(&file, || {}), 5);
    }

    /// Without a runtime there are no notifications: only what `judge` says counts.
    fn judging(file: &ConfigFile) -> ConfigWatch {
        let current = reread(file, file.text.clone()).unwrap().configuration;
        let file = file.clone();
        ConfigWatch {
            seen: file.text.clone(),
            file,
            reader: reread,
            current,
            is_refused: false,
            is_missing: false,
            touched: None,
        }
    }

    #[test]
    fn what_cannot_be_used_is_reported_once_with_its_file() {
        let mount = Mount::create("unusable");
        let file = mount.file();
        let mut watch = judging(&file);
        for (version, text, wanted) in [
            ("2", "kind: [".to_owned(), &["cannot be read as YAML"][..]),
            ("3", text("mode: ebpf\n"), &["mode: \"ebpf\" is not a proxy mode"]),
            ("4", text("oomScoreAdj: 9999\nbindAddress: x\n"), &["oomScoreAdj: must", "bindAddress: "]),
        ] {
            mount.publish(version, &text);
            let Some(ConfigChange::Unusable(problems)) = watch.judge() else { panic!("{text:?} is used") };
            let place = file.path.display().to_string();
            assert!(problems.iter().all(|problem| problem.starts_with(&place)), "{problems:?}");
            for words in wanted {
                assert!(problems.iter().any(|problem| problem.contains(words)), "{words}: {problems:?}");
            }
            assert!(watch.judge().is_none(), "{text:?} is reported again");
        }
        assert!(
            matches!(watch.reread(), Ok(Some(ConfigChange::Unusable(_)))),
            "who asks again is told again"
        );
        mount.publish("5", &text("oomScoreAdj: 5\n"));
        assert!(matches!(watch.judge(), Some(ConfigChange::Usable(_))));
    }

    #[test]
    fn other_words_for_the_same_settings_are_no_change() {
        let mount = Mount::create("same");
        let mut watch = judging(&mount.file());
        assert!(watch.judge().is_none());
        mount.publish("2", &text("# why\noomScoreAdj: -999\n"));
        assert!(watch.judge().is_none());
        mount.publish("3", "");
        assert!(watch.judge().is_none(), "it is about to be written");
        mount.publish("4", &text("oomScoreAdj: 5\n"));
        let Some(ConfigChange::Usable(resolved)) = watch.judge() else { panic!("no change") };
        watch.accept(resolved.configuration);
        assert!(matches!(watch.reread(), Ok(None)), "it is in force already");
        fs::remove_file(mount.0.join("config.conf")).unwrap();
        assert!(watch.judge().is_none());
        assert!(watch.reread().is_err(), "who asks is told that the file is gone");
    }
}
