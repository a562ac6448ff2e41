//! Prometheus' own tool reads the page without complaint. `scripts/setup` fetches it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use test_support::{Case, Verdict, tools};

use super::start;

/// What the linter has against names that upstream gave and dashboards ask for.
const UPSTREAMS_NAMES: [&str; 1] = ["kubeproxy_sync_proxy_rules_no_local_endpoints_total"];

pub(super) fn cases() -> Vec<Case<'static>> {
    vec![with_tool("metrics: promtool has no complaint", "promtool", |promtool| lint(&promtool))]
}

/// A case that is skipped where `tool` is neither installed nor fetched.
pub(super) fn with_tool(name: &'static str, tool: &'static str, run: fn(PathBuf)) -> Case<'static> {
    Case::new(name, move || match find(tool) {
        Some(path) => {
            run(path);
            Verdict::Passed
        }
        None => Verdict::Skipped(format!("{tool} is not there; scripts/setup fetches it on Debian")),
    })
}

pub(super) fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(tools::unpacked("prometheus"));
    folders.map(|folder| folder.join(tool)).find(|path| path.is_file())
}

/// Run to its end with `input`; whether it succeeded, and all it said.
pub(super) fn run(command: &mut Command, input: &str) -> (bool, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn lint(promtool: &std::path::Path) {
    let mut stage = start();
    // So that what exists only after a first request is there too.
    stage.agent().page("/healthz");
    for path in ["/metrics", "/metrics/slis"] {
        let text = stage.agent().page(path).unwrap();
        assert!(text.len() > 100, "{path}: {text}");
        let (_, said) = run(Command::new(promtool).args(["check", "metrics"]), &text);
        let known = |line: &&str| UPSTREAMS_NAMES.iter().any(|name| line.starts_with(name));
        let complaints: Vec<&str> = said.lines().filter(|line| !line.is_empty() && !known(line)).collect();
        assert!(complaints.is_empty(), "{path}: {complaints:#?}");
        let excused = UPSTREAMS_NAMES.iter().filter(|name| text.contains(**name));
        excused.for_each(|name| assert!(said.contains(name), "nothing is said against {name} any more"));
    }
    let (refused, _) = run(Command::new(promtool).args(["check", "metrics"]), "a b c\n");
    assert!(!refused, "promtool takes anything");
}
