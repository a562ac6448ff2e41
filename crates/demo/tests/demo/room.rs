//! Where a run of the demo is watched from outside: its folder, its processes, its output.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Instant;

use kernel::netns::{Namespace, enter_user_namespace};
use test_support::binary::{self, OVERRIDE};
use test_support::{SOON, patient};

pub(crate) const DEMO: &str = env!("CARGO_BIN_EXE_pointsman-demo");

/// The agent of all these runs.
pub(crate) fn kube_proxy() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| binary::kube_proxy().unwrap());
    &BUILT
}

/// A place of its own for a run's temporary files, by which its processes are recognised, too.
pub(crate) struct Room(pub(crate) PathBuf);

impl Room {
    pub(crate) fn new(name: &str) -> Room {
        let path = std::env::temp_dir().join(format!("demo-test-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Room(path)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(DEMO);
        command.args(arguments).env("TMPDIR", &self.0).env_remove("POINTSMAN_DEMO_INTERPRETED");
        command.env(OVERRIDE, kube_proxy());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The agents that read manifests in this room.
    pub(crate) fn agents(&self) -> Vec<PathBuf> {
        let ours = |process: &PathBuf| {
            let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&arguments).contains(&*self.0.to_string_lossy())
        };
        processes().filter(ours).collect()
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.files(), Vec::<PathBuf>::new());
        assert_eq!(self.agents(), Vec::<PathBuf>::new());
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let number = |path: &Path| path.file_name().unwrap().to_string_lossy().parse::<u32>().is_ok();
    fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).filter(move |path| number(path))
}

/// The network namespaces in which a process is.
pub(crate) fn namespaces_in_use() -> BTreeSet<PathBuf> {
    processes().filter_map(|process| fs::read_link(process.join("ns/net")).ok()).collect()
}

/// Whether this machine lets us have a sandbox; prints why a test is skipped if not.
pub(crate) fn possible() -> bool {
    let mut trial = Command::new("true");
    enter_user_namespace(&mut trial);
    let possible = Namespace::new().is_ok() || trial.status().is_ok_and(|status| status.success());
    if !possible {
        println!("SKIPPED: neither root nor user namespaces here");
    }
    possible
}

pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + patient(SOON);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Read the child's output up to a line that holds `mark`.
pub(crate) fn read_up_to(child: &mut Child, mark: &str) -> BufReader<std::process::ChildStdout> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut seen = String::new();
    while output.read_line(&mut seen).unwrap() > 0 {
        if seen.contains(mark) {
            return output;
        }
    }
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    panic!("{mark:?} never came:\n{seen}{errors}");
}
