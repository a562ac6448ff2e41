//! The real binary on the command line: what it prints and writes, and where to. It programs nothing here.
#![allow(clippy::unwrap_used)]

mod completions;
mod golden;
mod streams;

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn kube_proxy() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-proxy"));
    command.stdin(Stdio::null());
    command
}

/// Run to the end; nothing here takes long.
fn run(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    end(&mut child);
    child.wait_with_output().unwrap()
}

fn end(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("still running after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder that is gone when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("pointsman-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn errors_are_one_line_each_and_exit_code_1() {
    let output =
        run(kube_proxy().args(["--proxy-mod=nftables", "--oom-score-adj=5000", "--nodeport-addresses=x"]));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    let errors = text(&output.stderr);
    assert!(errors.lines().all(|line| line.starts_with("kube-proxy: ")), "{errors}");
    assert_eq!(errors.lines().count(), 3, "{errors}");
}

#[test]
fn the_demo_is_somewhere_else() {
    let output = run(kube_proxy().args(["demo", "--shell"]));
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("`make run`") && said.contains("`pointsman-demo`"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// A closed pipe is no reason to die with a core: `kube-proxy --help | head -1`.
#[test]
fn help_into_a_closed_pipe() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = kube_proxy().arg("--help").stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(end(&mut child).code(), Some(0));
}
