//! An ordinary user has all of this too, inside a user namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use kernel::netns::enter_user_namespace;
use test_support::{Case, ManifestFolder, Verdict, binary};

use super::stage::BINARY;

const NOBODY: u32 = 65534;
/// A short one that changes rules, damages them and passes packets.
const SMOKE: &str = "tables of others are left alone";

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![Case::new("an ordinary user runs the agent in a user namespace", as_nobody)]
}

fn as_nobody() -> Verdict {
    // Root of a user namespace of one user has no other user to become.
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if map.split_whitespace().nth(2) == Some("1") {
        return Verdict::Skipped("not root, so every case takes this way already".into());
    }
    let mut may = Command::new("/bin/true");
    may.uid(NOBODY).gid(NOBODY);
    enter_user_namespace(&mut may);
    if let Err(error) = may.status() {
        return Verdict::Skipped(format!("this machine refuses user namespaces: {error}"));
    }
    // The build folder may be closed to others.
    let folder = ManifestFolder::create();
    open_to_all(folder.path());
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        open_to_all(&to);
        to
    };
    let test = copy(&std::env::current_exe().unwrap(), "life");
    let agent = copy(BINARY.get().unwrap(), "kube-proxy");
    let mut command = Command::new(test);
    command.arg(SMOKE).env(binary::OVERRIDE, agent).uid(NOBODY).gid(NOBODY).current_dir("/");
    command.env("TMPDIR", std::env::temp_dir());
    let output = command.output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    match output.status.success() && text.contains("1 passed, 0 failed, 0 skipped") {
        true => Verdict::Passed,
        false => Verdict::Failed(format!("as nobody: {text}")),
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
