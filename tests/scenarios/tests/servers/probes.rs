//! `/healthz`, `/livez` and `/readyz`.

use serde_json::{Value, json};
use test_support::{Case, SOON, wait_until};

use crate::ask;
use crate::case;
use crate::site::{NODE, PROBES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("probes answer in the words of kube-proxy, on both families", words),
        case("a node that is about to go is unhealthy but live", leaving),
        case("not ready says what is awaited", awaiting),
    ]
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn words() {
    let site = Site::start(&[]);
    // Bound to 0.0.0.0, which for kube-proxy means IPv6 as well.
    for at in [PROBES, "[::1]:10256"] {
        let reply = site.get(at, "/healthz");
        assert_eq!(reply.code, 200);
        assert_eq!(reply.header("Content-Type"), Some("application/json"));
        assert_eq!(reply.header("X-Content-Type-Options"), Some("nosniff"));
        let body = reply.json();
        assert_eq!(keys(&body), ["currentTime", "healthy", "lastUpdated", "nodeEligible", "status"]);
        assert_eq!(keys(&body["status"]), ["IPv4", "IPv6"]);
        assert_eq!(keys(&body["status"]["IPv4"]), ["healthy", "lastUpdated"]);
        assert_eq!((&body["healthy"], &body["nodeEligible"]), (&json!(true), &json!(true)));
        assert_eq!(body["lastUpdated"], body["currentTime"], "recent while healthy");
    }
    let body = site.get(PROBES, "/livez").json();
    assert_eq!(keys(&body), ["currentTime", "healthy", "lastUpdated", "status"]);
    let ready = site.get(PROBES, "/readyz");
    assert_eq!((ready.code, ready.json()), (200, json!({"ready": true, "awaiting": []})));
    let lost = site.get(PROBES, "/nowhere");
    assert_eq!(lost.code, 404);
    assert!(lost.body.contains("/healthz /livez /readyz"), "{}", lost.body);
    let posted = ask::ask(&site.namespace, PROBES, "POST", "/healthz", &[], "are you well?").unwrap();
    assert_eq!(posted.code, 200, "as kube-proxy: whatever the method");
    let head = ask::ask(&site.namespace, PROBES, "HEAD", "/healthz", &[], "").unwrap();
    assert_eq!((head.code, head.body.as_str()), (200, ""));
}

fn leaving() {
    let site = Site::start(&[]);
    let mut node = test_support::manifest::node(NODE, "zone-1", &["127.0.0.5".parse().unwrap()]);
    node["spec"]["taints"] = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
    site.folder.put("node", &node);
    let body = site.await_reply(PROBES, "/healthz", |reply| reply.code == 503).json();
    assert_eq!((&body["healthy"], &body["nodeEligible"]), (&json!(true), &json!(false)));
    assert_eq!(site.get(PROBES, "/livez").code, 200);
    assert_eq!(site.get(PROBES, "/readyz").code, 200);
    node["spec"]["taints"] = json!([]);
    site.folder.put("node", &node);
    site.await_reply(PROBES, "/healthz", |reply| reply.code == 200);
    let metrics = site.get(crate::site::PAGES, "/metrics").body;
    let counted = |line: &str| metrics.lines().any(|found| found.starts_with(line) && !found.ends_with(" 0"));
    assert!(counted("kubeproxy_proxy_healthz_total{code=\"503\"}"), "{metrics}");
    assert!(counted("kubeproxy_proxy_livez_total{code=\"200\"}"), "{metrics}");
}

/// Broken manifests are no first list.
fn awaiting() {
    let mut site = Site::start(&[]);
    site.agent.stop().unwrap();
    site.folder.put_text("broken.yaml", "kind: [");
    site.agent.launch().unwrap();
    assert!(wait_until(SOON, || site.agent.probe("/readyz") == Some(503)), "{}", site.agent.log());
    let body = site.get(PROBES, "/readyz").json();
    assert_eq!(body["ready"], false);
    let awaited = body["awaiting"][0].as_str().unwrap();
    assert!(awaited.contains("manifests without errors") && awaited.contains("broken.yaml:1:7"), "{body}");
    let body = site.get(PROBES, "/healthz").json();
    assert_eq!(
        keys(&body),
        ["currentTime", "healthy", "lastUpdated", "nodeEligible"],
        "no family was synced"
    );
    for question in ["services", "diff", "explain?to=10.96.0.1:80"] {
        let reply = site.get(crate::site::PAGES, &format!("/pointsman/v1/{question}"));
        assert!(reply.code == 503 && reply.body.contains("nothing is programmed yet"), "{reply:?}");
    }
    for query in ["", "to=10.96.0.1:80", "service=default/web", "problems=true"] {
        let page = site.get(crate::site::PAGES, &format!("/?{query}"));
        assert!(page.code == 200 && page.body.contains("nothing is programmed yet"), "{query}: {page:?}");
        for claim in ["No service", "There are no services", "no such service", "Verdict"] {
            assert!(!page.body.contains(claim), "{query}: {claim}");
        }
    }
    std::fs::remove_file(site.folder.path().join("broken.yaml")).unwrap();
    site.agent.await_ready().unwrap_or_else(|why| panic!("{why}"));
}
