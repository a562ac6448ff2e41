//! The configuration file while the agent runs: a change ends it, so that whoever started it starts it anew with
//! the new settings. Kubernetes' own kube-proxy does so too.

use std::future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::sync::oneshot;

/// A configuration file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
}

/// Wait until the file says something else; for ever if there is none, or if it cannot be watched.
pub(crate) async fn changed(file: Option<ConfigFile>) {
    let Some(file) = file else { return future::pending().await };
    let (tell, told) = oneshot::channel();
    let watch = move || match await_change(&file) {
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

fn await_change(file: &ConfigFile) -> io::Result<()> {
    // A mounted ConfigMap changes by a link beside the file, hence the folder.
    let parent = file.path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let inotify = inotify::init(CreateFlags::CLOEXEC)?;
    let events = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&inotify, parent.unwrap_or(Path::new(".")), events)?;
    while !is_changed(file) {
        await_event(&inotify)?;
    }
    Ok(())
}

/// Which event it was does not matter: the file is looked at.
fn await_event(inotify: &OwnedFd) -> io::Result<()> {
    match rustix::io::read(inotify, &mut [0; 4096]) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file that is gone or being written is not a change yet.
fn is_changed(file: &ConfigFile) -> bool {
    std::fs::read_to_string(&file.path).is_ok_and(|text| !text.is_empty() && text != file.text)
}

#[cfg(test)]
mod tests {
    use super::*;
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
            mount.publish("1", "old");
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
            ConfigFile { path: self.0.join("config.conf"), text: "old".into() }
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

    #[test]
    fn a_new_version_of_a_config_map_is_a_change() {
        let mount = Mount::create("swap");
        run(async {
            let change = tokio::spawn(changed(Some(mount.file())));
            tokio::task::yield_now().await;
            mount.publish("2", "new");
            tokio::time::timeout(Duration::from_secs(10), change).await.unwrap().unwrap();
        });
    }

    #[test]
    fn the_same_text_or_none_is_no_change() {
        let mount = Mount::create("same");
        mount.publish("2", "old");
        assert!(!is_changed(&mount.file()));
        mount.publish("3", "");
        assert!(!is_changed(&mount.file()));
        fs::remove_file(mount.0.join("config.conf")).unwrap();
        assert!(!is_changed(&mount.file()));
    }

    #[test]
    fn a_change_before_the_watch_is_not_missed() {
        let mount = Mount::create("early");
        mount.publish("2", "new");
        run(async {
            tokio::time::timeout(Duration::from_secs(10), changed(Some(mount.file()))).await.unwrap();
        });
    }
}
