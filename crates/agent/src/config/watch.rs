//! The configuration file while the agent runs. A usable and different configuration ends it, so that whoever started
//! it starts it anew with the new settings; one that cannot be used is only reported, because an agent that ends for it
//! would not come up again.

use std::future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::sync::oneshot;

use super::configuration::Configuration;

/// A configuration file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
    /// The command line: a changed text is to be read beside the same flags.
    pub arguments: Vec<String>,
}

/// How a text of the file would be understood, or every problem with it.
pub(crate) type Reader = fn(&ConfigFile, String) -> Result<Configuration, Vec<String>>;

/// Wait until the file asks for something else than `current`; for ever if there is none, or if it cannot be watched.
pub(crate) async fn changed(file: Option<ConfigFile>, current: Configuration, reader: Reader) {
    let Some(file) = file else { return future::pending().await };
    let (tell, told) = oneshot::channel();
    let watch = move || match await_change(&file, &current, reader) {
        // Nobody listens any more when the agent is about to end.
        Ok(()) => drop(tell.send(())),
        Err(error) => give_up(&error),
    };
    if let Err(error) = thread::Builder::new().name("config".into()).spawn(watch) {
        give_up(&error);
    }
    if told.await.is_err() {
        future::pending::<()>().await;
    }
}

fn give_up(error: &io::Error) {
    tracing::error!(%error, "Cannot watch the configuration file: a change needs a restart by hand");
}

fn await_change(file: &ConfigFile, current: &Configuration, reader: Reader) -> io::Result<()> {
    // A mounted ConfigMap changes by a link beside the file, hence the folder.
    let parent = file.path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let inotify = inotify::init(CreateFlags::CLOEXEC)?;
    let events = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&inotify, parent.unwrap_or(Path::new(".")), events)?;
    let mut seen = file.text.clone();
    loop {
        match judge(file, &mut seen, current, reader) {
            Judgement::Same => {}
            Judgement::Different => return Ok(()),
            Judgement::Unusable(problems) => report(&problems),
        }
        await_event(&inotify)?;
    }
}

fn report(problems: &[String]) {
    for problem in problems {
        tracing::error!("Not used, the agent goes on with the settings it has: {problem}");
    }
}

/// Which event it was does not matter: the file is looked at.
fn await_event(inotify: &OwnedFd) -> io::Result<()> {
    match rustix::io::read(inotify, &mut [0; 4096]) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Same,
    Different,
    Unusable(Vec<String>),
}

/// A text is judged once. A file that is gone or empty is about to be written, or says nothing.
fn judge(file: &ConfigFile, seen: &mut String, current: &Configuration, reader: Reader) -> Judgement {
    let text = match std::fs::read_to_string(&file.path) {
        Ok(text) if text != *seen && !text.trim().is_empty() => text,
        _ => return Judgement::Same,
    };
    seen.clone_from(&text);
    match reader(file, text) {
        Ok(configuration) if configuration == *current => Judgement::Same,
        Ok(_) => Judgement::Different,
        Err(problems) => Judgement::Unusable(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::reconsider;
    use std::fs;
    use std::os::unix::fs::symlink;
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

    fn run<T>(wait: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(wait)
    }

    fn text(body: &str) -> String {
        format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{body}")
    }

    fn current(file: &ConfigFile) -> Configuration {
        reconsider(file, file.text.clone()).unwrap()
    }

    async fn assert_ends(file: ConfigFile, change: impl FnOnce()) {
        let current = current(&file);
        let end = tokio::spawn(changed(Some(file), current, reconsider));
        tokio::task::yield_now().await;
        change();
        tokio::time::timeout(Duration::from_secs(10), end).await.unwrap().unwrap();
    }

    #[test]
    fn a_new_version_of_a_config_map_is_a_change() {
        let mount = Mount::create("swap");
        run(assert_ends(mount.file(), || mount.publish("2", &text("oomScoreAdj: 5\n"))));
    }

    #[test]
    fn a_plain_file_that_is_written_is_a_change() {
        let mount = Mount::create("plain");
        let path = mount.0.join("plain.conf");
        fs::write(&path, text("")).unwrap();
        let file = ConfigFile {
            arguments: vec![format!("--config={}", path.display())],
            path: path.clone(),
            text: text(""),
        };
        run(assert_ends(file, || {
            fs::write(&path, "kind: [").unwrap();
            fs::write(&path, text("mode: ipvs\n")).unwrap();
            fs::write(&path, text("oomScoreAdj: 5\n")).unwrap();
        }));
    }

    #[test]
    fn a_change_before_the_watch_is_not_missed() {
        let mount = Mount::create("early");
        mount.publish("2", &text("oomScoreAdj: 5\n"));
        run(assert_ends(mount.file(), || {}));
    }

    #[test]
    fn what_cannot_be_used_is_reported_once_with_its_file() {
        let mount = Mount::create("unusable");
        let file = mount.file();
        let (current, mut seen) = (current(&file), file.text.clone());
        let mut judge = || judge(&file, &mut seen, &current, reconsider);
        for (version, text, wanted) in [
            ("2", "kind: [".to_owned(), &["cannot be read as YAML"][..]),
            ("3", text("mode: ipvs\n"), &["mode: ipvs is not in this build"]),
            ("4", text("oomScoreAdj: 9999\nbindAddress: x\n"), &["oomScoreAdj: must", "bindAddress: "]),
        ] {
            mount.publish(version, &text);
            let Judgement::Unusable(problems) = judge() else { panic!("{text:?} is used") };
            let place = file.path.display().to_string();
            assert!(problems.iter().all(|problem| problem.starts_with(&place)), "{problems:?}");
            for words in wanted {
                assert!(problems.iter().any(|problem| problem.contains(words)), "{words}: {problems:?}");
            }
            assert_eq!(judge(), Judgement::Same, "{text:?} is reported again");
        }
        mount.publish("5", &text("oomScoreAdj: 5\n"));
        assert_eq!(judge(), Judgement::Different);
    }

    #[test]
    fn other_words_for_the_same_settings_are_no_change() {
        let mount = Mount::create("same");
        let file = mount.file();
        let (current, mut seen) = (current(&file), file.text.clone());
        let mut judge = || judge(&file, &mut seen, &current, reconsider);
        assert_eq!(judge(), Judgement::Same);
        mount.publish("2", &text("# why\noomScoreAdj: -999\n"));
        assert_eq!(judge(), Judgement::Same);
        mount.publish("3", "");
        assert_eq!(judge(), Judgement::Same, "it is about to be written");
        fs::remove_file(mount.0.join("config.conf")).unwrap();
        assert_eq!(judge(), Judgement::Same);
    }
}
