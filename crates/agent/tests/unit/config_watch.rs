//! A configuration file that changes, is replaced or breaks.

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
    assert!(matches!(watch.reread(), Ok(Some(ConfigChange::Unusable(_)))), "who asks again is told again");
    mount.publish("5", &text("oomScoreAdj: 5\n"));
    assert!(matches!(watch.judge(), Some(ConfigChange::Usable(_))));
}

#[test]
fn a_file_that_grew_too_large_changes_nothing() {
    let mount = Mount::create("large");
    let mut watch = judging(&mount.file());
    mount.publish("2", &" ".repeat(2 << 20));
    assert!(watch.judge().is_none() && watch.is_missing);
    assert_eq!(watch.reread().err().as_deref(), Some("it is larger than 1 MiB"));
    mount.publish("3", &text("oomScoreAdj: 5\n"));
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
