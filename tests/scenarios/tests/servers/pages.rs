//! What is served beside the metrics.

use model::Family;
use sandbox::Namespace;
use serde_json::json;
use test_support::{Case, ManifestFolder};

use crate::ask::{self, Reply};
use crate::case;
use crate::site::{PAGES, PROBES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("metrics and the pages beside them", pages),
        case("debugging pages in text, JSON and YAML", negotiated),
        case("the level of the log is set by PUT, with profiling only", verbosity),
        case("what is planned and programmed for a service is shown, with profiling only", service_status),
        case("gates and an address of zero turn pages off", off),
        case("addresses and pages follow a configuration file that changes", reconfigured),
    ]
}

fn with_accept(site: &Site, path: &str, accept: &str) -> Reply {
    ask::ask(&site.namespace, PAGES, "GET", path, &[&format!("Accept: {accept}")], "").unwrap()
}

fn pages() {
    let site = Site::start(&["--cluster-cidr=10.1.0.0/16", "--proxy-mode=nftables"]);
    assert_eq!(site.get(PAGES, "/healthz").body, "ok");
    assert_eq!(site.get(PAGES, "/healthz?verbose").body, "[+]ping ok\nhealthz check passed\n");
    assert_eq!(site.get(PAGES, "/proxyMode").body, "nftables");
    let metrics = site.get(PAGES, "/metrics");
    let kind = metrics.header("Content-Type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4; charset=utf-8"), "{kind}");
    assert!(metrics.header("Process-Start-Time-Unix").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    assert!(metrics.body.contains("# TYPE kubeproxy_proxy_healthz_total counter\n"), "{}", metrics.body);
    let slis = site.get(PAGES, "/metrics/slis").body;
    assert!(slis.contains("kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n"), "{slis}");
    let configz = site.get(PAGES, "/configz");
    assert_eq!(configz.header("Content-Type"), Some("application/json"));
    let configuration = &configz.json()["kubeproxy.config.k8s.io"];
    assert_eq!(configuration["kind"], "KubeProxyConfiguration");
    assert_eq!(configuration["apiVersion"], "kubeproxy.config.k8s.io/v1alpha1");
    assert_eq!(configuration["clusterCIDR"], "10.1.0.0/16");
    assert_eq!(configuration["logging"]["verbosity"], 4);
    assert_eq!(site.get(PAGES, "/nowhere").code, 404);
    let index = site.get(PAGES, "/").body;
    let is_linked = |path: &&str| index.contains(&format!("<a href=\"{}\">{path}</a>", &path[1..]));
    assert!(["/metrics", "/configz", "/statusz"].iter().all(is_linked), "{index}");
}

fn negotiated() {
    let site = Site::start(&["--cluster-cidr=10.1.0.0/16"]);
    let text = site.get(PAGES, "/flagz").body;
    assert!(text.contains("\ncluster-cidr 10.1.0.0/16\n") && text.contains("\ncleanup false\n"), "{text}");
    let flags = with_accept(&site, "/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io");
    assert_eq!(flags.header("Content-Type"), Some("application/json;g=config.k8s.io;v=v1beta1;as=Flagz"));
    let body = flags.json();
    assert_eq!((&body["kind"], &body["flags"]["cluster-cidr"]), (&json!("Flagz"), &json!("10.1.0.0/16")));
    let status = with_accept(&site, "/statusz", "application/json;as=Statusz;v=v1alpha1;g=config.k8s.io");
    assert!(status.header("Warning").unwrap().starts_with("299 "));
    let paths = ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode"];
    assert_eq!(status.json()["paths"], json!(paths));
    let status = with_accept(&site, "/statusz", "application/yaml;as=Statusz;v=v1beta1;g=config.k8s.io");
    assert!(status.body.contains("\nkind: Statusz\n"), "{}", status.body);
    let refused = with_accept(&site, "/statusz", "application/json");
    assert_eq!((refused.code, &refused.json()["reason"]), (406, &json!("NotAcceptable")));
}

fn verbosity() {
    let site = Site::start(&["--profiling", "-v=0"]);
    let profile = |site_word: &str| {
        let header = format!("Sec-Fetch-Site: {site_word}");
        ask::ask(&site.namespace, PAGES, "GET", "/debug/pprof/cmdline", &[&header], "").unwrap().code
    };
    assert_eq!(["cross-site", "same-site", "none"].map(profile), [403, 403, 200]);
    let put = |level: &str| ask::ask(&site.namespace, PAGES, "PUT", "/debug/flags/v", &[], level).unwrap();
    let synced = || site.agent.log().matches("\"Synced\"").count();
    let before = synced();
    assert_eq!(put("5").code, 200);
    site.put_checked("web", 32000);
    site.await_word("\"Synced\"");
    assert_eq!(before, 0, "not at level 0");
    assert_eq!(put("loud").code, 400);
    assert_eq!(put(&"9".repeat(10_000)).code, 413);
    assert_eq!(site.get(PAGES, "/debug/flags/v").code, 406);
    let quiet = Site::start(&[]);
    assert_eq!(quiet.get(PAGES, "/debug/flags/v").code, 404);
}

fn service_status() {
    let site = Site::start(&["--profiling"]);
    let path = "/debug/service?name=default/web";
    assert_eq!(site.get(PAGES, path).code, 404, "there is no such service");
    assert_eq!(site.get(PAGES, "/debug/service").code, 400);
    for path in [path, "/debug/flags/v"] {
        let stranger = ask::ask_host(&site.namespace, PAGES, "rebound.example:10249", path).unwrap();
        assert_eq!(stranger.code, 421, "{path}: {}", stranger.body);
    }
    site.put_checked("web", 32000);
    site.put_endpoints("web", Family::V4, 2);
    let is_written = |reply: &Reply| {
        reply.code == 200 && {
            let v4 = &reply.json()["families"]["IPv4"];
            v4["pending"] == json!(false) && v4["programmed"]["ports"][0]["clusterEndpoints"] == json!(3)
        }
    };
    let shown = site.await_reply(PAGES, path, is_written).json();
    let v4 = &shown["families"]["IPv4"];
    assert_eq!(v4["planned"], v4["programmed"], "{shown:#}");
    assert_eq!(v4["knownEndpoints"], 4, "{shown:#}");
    assert_eq!(v4["programmed"]["ports"][0]["name"], "main", "{shown:#}");
    assert_eq!(shown["families"]["IPv6"]["knownEndpoints"], 0, "{shown:#}");
    let quiet = Site::start(&[]);
    assert_eq!(quiet.get(PAGES, path).code, 404);
}

fn off() {
    let site = Site::start(&["--feature-gates=ComponentFlagz=false,ComponentStatusz=false"]);
    assert_eq!((site.get(PAGES, "/flagz").code, site.get(PAGES, "/statusz").code), (404, 404));
    assert_eq!(site.get(PAGES, "/configz").code, 200);
    let site = Site::start(&["--metrics-port=0"]);
    assert!(site.try_get(PAGES, "/metrics").is_err(), "served although turned off");
}

fn reconfigured() {
    let (namespace, folder) = (Namespace::new().unwrap(), ManifestFolder::create());
    let write = |folder: &ManifestFolder, body: &str| {
        let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
        let rest = "conntrack: {maxPerCore: 0}\noomScoreAdj: 0\n";
        folder.put_text(".config", &format!("{head}{rest}{body}"));
    };
    write(&folder, "");
    let flag = format!("--config={}", folder.path().join(".config").display());
    let site = Site::over(namespace, folder, &[&flag]);
    let process = site.agent.process();
    assert_eq!(site.get(PAGES, "/proxyMode").code, 200);
    write(&site.folder, "metricsBindAddress: 127.0.0.1:11249\nfeatureGates: {ComponentFlagz: false}\n");
    let configz = site.await_reply("127.0.0.1:11249", "/configz", |reply| reply.code == 200).json();
    assert_eq!(configz["kubeproxy.config.k8s.io"]["metricsBindAddress"], "127.0.0.1:11249");
    assert_eq!(site.get("127.0.0.1:11249", "/flagz").code, 404);
    site.await_silence(PAGES);
    assert_eq!(site.get(PROBES, "/readyz").code, 200, "the probes are where they were");
    write(&site.folder, "healthzBindAddress: 127.0.0.1:11256\n");
    site.await_reply("127.0.0.1:11256", "/readyz", |reply| reply.code == 200);
    site.await_silence(PROBES);
    site.await_reply(PAGES, "/flagz", |reply| reply.code == 200);
    assert_eq!(site.agent.process(), process);
}
