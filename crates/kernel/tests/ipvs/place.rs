//! Where the tests run: a network namespace with IPVS, and the tools to compare with.

use std::process::Command as Process;

use kernel::ipvs::{Connection, Destination, Error, Protocol, VirtualServer};
use kernel::netns::Namespace;

/// Run `test` in a namespace of its own, or say why it cannot be.
pub(crate) fn with_ipvs(test: impl FnOnce(&mut Connection) + Send) {
    Namespace::new().unwrap().run(|| match Connection::open() {
        Ok(mut connection) => test(&mut connection),
        Err(error @ Error::NotAvailable) => println!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    });
}

/// What a tool prints; `None`, with the reason printed, if it is not installed.
pub(crate) fn told(tool: &str, arguments: &str) -> Option<String> {
    let Ok(output) = Process::new(tool).args(arguments.split_whitespace()).output() else {
        println!("SKIPPED: {tool} is not installed");
        return None;
    };
    assert!(output.status.success(), "{tool} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// `ipvsadm -S -n`: the commands that would make what is there, sorted.
pub(crate) fn saved() -> Option<Vec<String>> {
    let mut lines: Vec<String> =
        told("ipvsadm", "-S -n")?.lines().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    Some(lines)
}

pub(crate) fn server(text: &str) -> VirtualServer {
    let (address, protocol) = text.rsplit_once('/').unwrap();
    let address: std::net::SocketAddr = address.parse().unwrap();
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        other => panic!("{other}"),
    };
    VirtualServer { address: address.ip(), protocol, port: address.port() }
}

pub(crate) fn destination(text: &str) -> Destination {
    let address: std::net::SocketAddr = text.parse().unwrap();
    Destination { address: address.ip(), port: address.port() }
}
