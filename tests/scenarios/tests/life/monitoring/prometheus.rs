//! A real Prometheus scrapes the agent, evaluates the alerts and answers what the dashboard asks.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kernel::process::{Signal, die_with_parent};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sandbox::Namespace;
use serde_json::Value;
use test_support::node_agent::get;
use test_support::{Case, wait_until};

use super::alerts::OF_APISERVER;
use super::tools::with_tool;
use super::{SOON, expressions, start};

const LISTEN: &str = "127.0.0.1:9090";

pub(super) fn cases() -> Vec<Case<'static>> {
    vec![with_tool("dashboard and alerts over a live Prometheus", "prometheus", |binary| answers(&binary))]
}

/// A server in the namespace of the node; dropping it ends it.
struct Prometheus {
    child: Child,
    namespace: Namespace,
    log: PathBuf,
}

impl Prometheus {
    /// `folder` holds its configuration, its log and what it stores.
    fn start(binary: &Path, namespace: &Namespace, folder: &Path) -> Prometheus {
        let config = serde_json::json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [expressions::folder().join("alerts.yaml")],
            "scrape_configs": [{
                "job_name": "kube-proxy",
                "static_configs": [{"targets": ["127.0.0.1:10249"]}],
            }],
        });
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
        let log = folder.join("log");
        let mut command = Command::new(binary);
        command
            .arg(format!("--config.file={}", folder.join("config.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={LISTEN}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap());
        die_with_parent(&mut command, Signal::Kill);
        namespace.enter(&mut command).unwrap();
        let child = command.spawn().unwrap();
        Prometheus { child, namespace: namespace.try_clone().unwrap(), log }
    }

    /// What the API answers below `/api/v1/`; `Null` if nothing does.
    fn ask(&self, path: &str) -> Value {
        let path = format!("/api/v1/{path}");
        let answer = self.namespace.try_run(|| get(LISTEN.parse().unwrap(), &path)).ok().flatten();
        let body = answer.as_deref().and_then(|answer| answer.split_once("\r\n\r\n")).map(|(_, body)| body);
        body.and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default()
    }

    fn query(&self, expression: &str) -> Value {
        self.ask(&format!("query?query={}", utf8_percent_encode(expression, NON_ALPHANUMERIC)))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It has ended already if it cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_results(answer: &Value) -> bool {
    answer["data"]["result"].as_array().is_some_and(|series| !series.is_empty())
}

fn answers(binary: &Path) {
    let mut stage = start();
    stage.agent().probe("/healthz");
    let folder = stage.folder.path().join(".prometheus");
    let prometheus = Prometheus::start(binary, &stage.sandbox.node, &folder);
    // A rate needs two scrapes.
    let scraped = "count_over_time(up{job=\"kube-proxy\"}[1m]) > 3";
    assert!(
        wait_until(SOON, || has_results(&prometheus.query(scraped))),
        "{}\n{}",
        prometheus.query("up"),
        prometheus.log()
    );
    let all = expressions::of_dashboard();
    assert!(all.len() > 20);
    for expression in all {
        let answer = prometheus.query(&expression);
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let may_be_empty = expressions::names(&expression)
            .iter()
            .any(|name| OF_APISERVER.iter().any(|known| name.starts_with(known)));
        assert!(may_be_empty || has_results(&answer), "nothing for {expression}");
    }
    alerts(&prometheus);
}

/// All of them can be evaluated, and none has anything against a healthy agent.
fn alerts(prometheus: &Prometheus) {
    let evaluated = |rules: &[Value]| rules.iter().all(|rule| rule["health"] == "ok");
    let mut rules = Vec::new();
    let done = wait_until(SOON, || {
        let answer = prometheus.ask("rules");
        rules = answer["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        !rules.is_empty() && evaluated(&rules)
    });
    assert!(done, "{rules:#?}\n{}", prometheus.log());
    let active: Vec<&Value> = rules.iter().filter(|rule| rule["state"] != "inactive").collect();
    assert!(active.is_empty(), "{active:#?}");
}
