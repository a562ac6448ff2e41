//! Ports that another process holds.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Instant;

use kernel::nft::{self, Connection, Transport};
use sandbox::Namespace;
use test_support::{Case, ManifestFolder, SOON, wait_until};

use crate::case;
use crate::site::{BINARY, PAGES, PROBES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("ports that are taken are waited for, and nothing else waits", awaited),
        case("the port of a health check that is taken is waited for", check_awaited),
        case("a port that is taken ends the agent if asked to", fatal),
    ]
}

fn tables(namespace: &Namespace) -> usize {
    namespace.run(|| {
        let mut connection = Connection::open().unwrap();
        [nft::TableFamily::Ip, nft::TableFamily::Ip6]
            .map(|family| connection.tables(family).unwrap().len())
            .iter()
            .sum()
    })
}

/// The rules are what matters; probes and metrics follow when they can.
fn awaited() {
    let mut site = Site::start(&["--healthz-bind-address=127.0.0.1:10256"]);
    site.agent.stop().unwrap();
    let taken = [PROBES, PAGES].map(|at| site.namespace.run(|| TcpListener::bind(at)).unwrap());
    site.agent.launch().unwrap();
    for words in ["Failed to serve the probes", "Failed to serve the metrics"] {
        site.await_word(words);
        let log = site.agent.log();
        let line = log.lines().find(|line| line.contains(words)).unwrap();
        assert!(
            line.contains("stop the process that holds the port") && line.contains("-bind-address"),
            "{line}"
        );
    }
    let rules = || site.agent.log().matches("All rules are in place").count();
    assert!(wait_until(SOON, || rules() == 2), "the rules wait, too:\n{}", site.agent.log());
    drop(taken);
    let freed = Instant::now();
    site.await_reply(PROBES, "/readyz", |reply| reply.code == 200);
    site.await_reply(PAGES, "/healthz", |reply| reply.code == 200);
    println!("freed ports were served after {:?}", freed.elapsed());
}

fn check_awaited() {
    let site = Site::start(&["--nodeport-addresses=127.0.0.0/8,::1/128"]);
    let taken = site.namespace.run(|| TcpListener::bind("127.0.0.1:32000")).unwrap();
    site.put_checked("web", 32000);
    site.await_word("Failed to open the health check port of a service");
    // Whatever else is asked for is served.
    site.await_reply("[::1]:32000", "/", |reply| reply.code == 503);
    drop(taken);
    site.await_reply("127.0.0.1:32000", "/", |reply| reply.code == 503);
}

fn fatal() {
    for (address, setting, why) in [
        ("127.0.0.1:10256", "--healthz-bind-address", "stop the process that holds the port"),
        ("127.0.0.1:10249", "--metrics-bind-address", "stop the process that holds the port"),
        ("203.0.113.9:10249", "--metrics-bind-address", "this node does not have the address"),
    ] {
        let (folder, namespace) = (ManifestFolder::create(), Namespace::new().unwrap());
        let _taken = namespace.run(|| TcpListener::bind(address));
        let mut command = Command::new(BINARY.get().unwrap());
        command.arg("--manifests").arg(folder.path()).arg("--bind-address-hard-fail");
        command.arg(format!("{setting}={address}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = namespace.run(|| command.spawn()).unwrap();
        let ended = wait_until(SOON, || child.try_wait().unwrap().is_some());
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(ended, "it runs on:\n{text}");
        assert_eq!(output.status.code(), Some(1), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!([address, setting, why].iter().all(|part| last.contains(part)), "{text}");
        assert_eq!(tables(&namespace), 0, "rules were written");
    }
}
