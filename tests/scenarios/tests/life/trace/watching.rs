//! `kube-proxy trace` at work: the lines that it prints, as they come.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};

use kernel::process::{Signal, die_with_parent};
use model::Family;
use serde_json::Value;
use test_support::{SOON, patient};

use super::super::nft;
use super::super::stage::{BINARY, Stage};

pub(crate) struct Watching {
    child: Child,
    lines: Receiver<Value>,
    what: String,
}

impl Watching {
    /// Begin, and wait until packets are followed.
    pub(crate) fn start(stage: &Stage, words: &[&str]) -> Watching {
        let mut command = Command::new(BINARY.get().expect("main has found the binary"));
        command.arg("trace").args(words).args(["-o", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        die_with_parent(&mut command, Signal::Kill);
        stage.sandbox.node.enter(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let watching = Watching { child, lines, what: words.join(" ") };
        let first = watching.next();
        assert!(first["tracing"].is_object(), "{first}");
        watching
    }

    pub(crate) fn next(&self) -> Value {
        let line = self.lines.recv_timeout(patient(SOON));
        line.unwrap_or_else(|why| panic!("trace {} says nothing: {why}", self.what))
    }

    /// All lines up to the end, and the exit code.
    pub(crate) fn rest(mut self) -> (Vec<Value>, Value, ExitStatus) {
        let mut lines = Vec::new();
        loop {
            let line = self.next();
            if line["end"].is_object() {
                return (lines, line["end"].clone(), self.child.wait().unwrap());
            }
            lines.push(line);
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tables by which packets are followed.
pub(super) fn tables(stage: &Stage) -> usize {
    let list = |family| nft::run(&stage.sandbox.node, &["list", "tables", nft::family_word(family)]).unwrap();
    let texts = Family::BOTH.map(list);
    texts.iter().flat_map(|text| text.lines()).filter(|line| line.contains("kube-proxy-trace-")).count()
}
