//! Commands that get no answer: mistakes, no agent, another version, no permission. Each is one line, of every command.

use std::io::{Read, Write};
use std::net::TcpListener;

use sandbox::Namespace;
use test_support::Case;

use crate::case;
use crate::commands::command;

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("wrong arguments are one line, of every command", wrong_arguments),
        case("no agent, a stranger and one that refuses are one line each, of every command", strangers),
        case("an agent of another version answers, and a line says so", other_version),
    ]
}

/// Every command that asks an agent, as it should be called.
const COMMANDS: [&[&str]; 5] = [
    &["explain", "10.96.0.1:80"],
    &["services"],
    &["diff"],
    &["bundle", "/nonexistent/bundle.tar"],
    &["trace", "10.96.0.1:80"],
];

/// What a command that fails says.
fn line(namespace: &Namespace, words: &[&str]) -> String {
    let output = command(namespace, words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, problems) = (text(output.stdout), text(output.stderr));
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{words:?}: {problems}");
    assert_eq!(problems.lines().count(), 1, "{words:?}: {problems}");
    assert!(problems.starts_with(&format!("kube-proxy: {}: ", words[0])), "{words:?}: {problems}");
    problems
}

fn wrong_arguments() {
    let namespace = Namespace::new().unwrap();
    for words in COMMANDS {
        for (more, wanted) in [
            (&["--agnt=x"][..], "unknown flag --agnt; did you mean --agent?"),
            (&["--agent"], "--agent needs a value"),
            (&["--agent", "nowhere"], "--agent: \"nowhere\" is not ADDRESS:PORT"),
            (&["--metrics-bind-address", "nowhere"], "nowhere"),
            (&["--config", "/nonexistent"], "/nonexistent"),
            (&["one", "two", "three"], "see --help"),
        ] {
            let said = line(&namespace, &[words, more].concat());
            assert!(said.contains(wanted), "{words:?} {more:?}: {said}");
        }
    }
    for (words, wanted) in [
        (&["services", "--from", "10.0.0.1"][..], "--from is not a flag of this command"),
        (&["diff", "--problems"], "--problems is not a flag of this command"),
        (&["bundle", "--watch"], "--watch is not a flag of this command"),
        (&["explain", "10.96.0.1:80", "--force"], "--force is not a flag of this command"),
        (&["explain", "--frm=x"], "unknown flag --frm; did you mean --from?"),
        (&["services", "--foo"], "unknown flag --foo; see --help"),
        (&["diff", "web:80"], "\"web:80\" is not a service; expected NAME or NAMESPACE/NAME"),
        (&["diff", "-o", "xml"], "-o: \"xml\" is not one of"),
        (&["explain", "10.96.0.1:80", "-o", "xml"], "-o: \"xml\" is not one of"),
        (&["check"], "see --help"),
        (&["check", "/nonexistent"], "/nonexistent does not exist"),
        (&["check", "--frm"], "unknown flag --frm"),
    ] {
        let said = line(&namespace, words);
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
}

/// Answers every request with this, until the namespace is gone.
fn serve(namespace: &Namespace, at: &'static str, answer: impl Fn(&str) -> String + Send + 'static) {
    let listener = namespace.run(|| TcpListener::bind(at)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 2048];
            let read = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = stream.write_all(answer(&path).as_bytes());
        }
    });
}

fn strangers() {
    let namespace = Namespace::new().unwrap();
    serve(&namespace, "127.0.0.1:2001", |_| "HTTP/1.0 403 Forbidden\r\n\r\nno".to_owned());
    serve(&namespace, "127.0.0.1:2002", |_| "HTTP/1.0 404 Not Found\r\n\r\n".to_owned());
    serve(&namespace, "127.0.0.1:2003", |_| "SSH-2.0-OpenSSH\r\n".to_owned());
    serve(&namespace, "127.0.0.1:2004", |path| match path {
        "/metrics" => "HTTP/1.0 200 OK\r\n\r\nkubernetes_build_info{git_version=\"v1.30.1\"} 1\n".to_owned(),
        _ => "HTTP/1.0 404 Not Found\r\n\r\n".to_owned(),
    });
    for words in COMMANDS {
        for (agent, wanted) in [
            (
                "127.0.0.1:1",
                "no agent answers at 127.0.0.1:1: connection refused. Is kube-proxy running on this node?",
            ),
            ("127.0.0.1:2001", "no permission: 127.0.0.1:2001 answered with code 403"),
            ("127.0.0.1:2002", "what answers at 127.0.0.1:2002 is not a kube-proxy that can be asked"),
            ("127.0.0.1:2003", "cannot ask the agent at 127.0.0.1:2003: the answer is not HTTP"),
            ("127.0.0.1:2004", "the kube-proxy at 127.0.0.1:2004 is v1.30.1 and does not know this question"),
        ] {
            let said = line(&namespace, &[words, &["--agent", agent][..]].concat());
            assert!(said.contains(wanted), "{words:?}: {said}");
        }
    }
}

const OTHER: &str = "HTTP/1.0 200 OK\r\nPointsman-Version: v1.99.0+pointsman.9.9.9\r\n\r\n";

fn other_version() {
    let namespace = Namespace::new().unwrap();
    serve(&namespace, "127.0.0.1:2001", |path| {
        let lines = "{\"tracing\":{}}\n{\"end\":{\"notes\":[]}}\n";
        let document =
            "{\"verdict\":\"forward\",\"text\":\"fine\\n\",\"services\":[],\"compared\":1,\"node\":\"n1\"}";
        format!("{OTHER}{}", if path.contains("/trace?") { lines } else { document })
    });
    // It answers in a form of its own.
    serve(&namespace, "127.0.0.1:2002", |_| format!("{OTHER}<answer/>\n"));
    let file = std::env::temp_dir().join(format!("pointsman-other-{}.tar", std::process::id()));
    let file = file.display().to_string();
    let difference = "the agent at 127.0.0.1:2001 is v1.99.0+pointsman.9.9.9, this program is v1.";
    for words in COMMANDS {
        let words = if words[0] == "bundle" { &["bundle", &file, "--force"][..] } else { words };
        let more: &[&str] = if words[0] == "trace" { &["-o", "json"] } else { &[] };
        let output = command(&namespace, &[words, more, &["--agent", "127.0.0.1:2001"]].concat());
        let problems = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), problems.lines().count()), (Some(0), 1), "{words:?}: {problems}");
        assert!(problems.starts_with(&format!("kube-proxy: {difference}")), "{words:?}: {problems}");
        let said = line(&namespace, &[words, &["--agent", "127.0.0.1:2002"][..]].concat());
        assert!(said.contains("cannot be read") && said.contains("pointsman.9.9.9"), "{words:?}: {said}");
    }
    std::fs::remove_file(&file).unwrap();
}
