//! A namespace with a connection, and the nft tool inside it to look at the result with other eyes.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use kernel::netns::Namespace;
use kernel::nft::{Batch, Connection, TableFamily, Transport};

pub(crate) struct Space {
    pub(crate) namespace: Namespace,
    pub(crate) connection: Connection,
}

pub(crate) fn in_namespace(body: impl FnOnce(Space)) {
    let namespace = Namespace::new().expect("a namespace");
    let connection = namespace.run(Connection::open).expect("a connection");
    body(Space { namespace, connection });
}

/// Whether nft is there; says so if not.
pub(crate) fn nft_installed() -> bool {
    let found = Command::new("nft").arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: the nft tool is not installed");
    }
    found
}

pub(crate) fn batch() -> Batch {
    Batch::new(TableFamily::Ip, "test")
}

impl Space {
    pub(crate) fn commit(&mut self, batch: &Batch) {
        self.connection.commit(batch).unwrap_or_else(|error| panic!("{error}"));
    }

    /// What nft prints.
    pub(crate) fn nft(&self, arguments: &[&str]) -> String {
        let output = self.run_nft(arguments, "");
        text(output)
    }

    /// Let nft read `input`.
    pub(crate) fn load(&self, input: &str) {
        text(self.run_nft(&["-f", "-"], input));
    }

    fn run_nft(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new("nft");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.namespace.enter(&mut command).expect("to enter the namespace");
        let mut child = command.spawn().expect("to start nft");
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("to write to nft");
        child.wait_with_output().expect("nft to end")
    }
}

fn text(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "nft failed: {errors}");
    String::from_utf8(output.stdout).expect("text")
}
