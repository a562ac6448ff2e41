//! The page at `/` as a client without scripts meets it: everything is links and forms.

use std::io::{Read, Write};

use kernel::link::Links;
use model::{Family, Protocol};
use sandbox::Namespace;
use test_support::{Case, ManifestFolder, ServiceManifest, manifest};

use crate::ask::{self, Reply};
use crate::case;
use crate::commands::command;
use crate::site::{NODE, PAGES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        case("the page shows node, syncs, services and an answer without scripts", shown),
        case("the page lists problems first, and page by page", listed),
        case("what objects and visitors write is text on the page", hostile),
        case("the page shows the traffic of one service if it is counted", counted),
        case("the page is read-only, and not for strangers", guarded),
        case("the log, the rules and traces are for clients on the node only", kept),
        case("the page is sent again only if something changed", unchanged),
    ]
}

/// A service with endpoints, and one without.
pub(crate) fn site() -> Site {
    let site = Site::start(&["--cluster-cidr=10.1.0.0/16", "--proxy-mode=nftables"]);
    site.put_checked("web", 32000);
    Family::BOTH.into_iter().for_each(|family| site.put_endpoints("web", family, 1));
    put_empty(&site, "empty", "10.96.1.1");
    await_services(&site, 2);
    site
}

fn put_empty(site: &Site, name: &str, ip: &str) {
    let service = ServiceManifest::new(name, &[ip.parse().unwrap()]).port("x", Protocol::Udp, 53, 0);
    site.folder.put_service(&service);
}

pub(crate) fn await_services(site: &Site, count: usize) {
    site.await_reply(PAGES, "/pointsman/v1/services", |reply| {
        let services = reply.json();
        let services = services["services"].as_array().cloned().unwrap_or_default();
        services.len() == count && services.iter().all(|service| service["pending"] == false)
    });
}

fn page(site: &Site, query: &str) -> String {
    let reply = site.get(PAGES, &format!("/{query}"));
    assert_eq!(
        (reply.code, reply.header("Content-Type")),
        (200, Some("text/html; charset=utf-8")),
        "{query}"
    );
    reply.body
}

fn assert_words(page: &str, words: &[&str]) {
    words.iter().for_each(|words| assert!(page.contains(words), "{words} is missing in\n{page}"));
}

fn shown() {
    let site = site();
    let overview = page(&site, "");
    assert_words(
        &overview,
        &["node-1", "<b>nftables</b>", "Healthy", "Up to date", "<rect class=\"v4\"", "default/</span>"],
    );
    assert_words(
        &overview,
        &["1–2 of 2 services", "1 with problems", "no endpoints; check the selector and the pods"],
    );
    let service = page(&site, "?service=default/web");
    assert_words(
        &service,
        &["Service default/web", "10.1.0.1:8080", "not used: terminating", "cluster IP", "as written"],
    );
    assert_words(&page(&site, "?service=default/gone"), &["There is no such service here"]);
    let answer = page(&site, "?to=udp:10.96.1.1:53&from=10.1.0.9");
    assert_words(&answer, &[">rejected</p>", "<dt class=\"todo\">To do</dt>", "value=\"udp:10.96.1.1:53\""]);
    assert_words(&page(&site, "?to=default/web"), &["default/web, port main: this is its cluster IP"]);
    assert_words(&page(&site, "?to=10.96.1.1:53&from=fd00::1"), &["are of different IP families"]);
    let status = site.get(PAGES, "/pointsman/v1/status").json();
    assert_eq!((&status["node"], &status["mode"]), (&"node-1".into(), &"nftables".into()));
    assert_eq!(status["families"]["IPv4"]["services"], 2, "{status:#}");
    assert!(status["syncs"].as_array().is_some_and(|syncs| !syncs.is_empty()), "{status:#}");
}

fn listed() {
    let site = Site::start(&[]);
    (0..60).for_each(|number| put_empty(&site, &format!("empty-{number:02}"), &format!("10.96.1.{number}")));
    site.put_checked("aaa", 32000);
    for family in Family::BOTH {
        site.put_endpoints("aaa", family, 1);
    }
    await_services(&site, 61);
    let position = |page: &str, name: &str| page.find(&format!("<wbr>{name}</a>"));
    let first = page(&site, "");
    assert_words(&first, &["1–50 of 61 services", "60 with problems", "page 1 of 2", "Next →"]);
    assert!(
        position(&first, "empty-00").is_some() && position(&first, "aaa").is_none(),
        "problems come first"
    );
    let second = page(&site, "?page=2");
    assert!(position(&second, "empty-59") < position(&second, "aaa") && position(&second, "aaa").is_some());
    assert_words(&page(&site, "?page=77"), &["51–61 of 61 services"]);
    assert_words(&page(&site, "?q=aa"), &["1–1 of 1 service<"]);
    assert_words(&page(&site, "?q=10.96.1.7"), &["1–1 of 1 service, ", "empty-07"]);
    assert_words(&page(&site, "?problems=true&q=aaa"), &["No service matches."]);
    assert_words(
        &page(&site, "?problems=true"),
        &["1–50 of 60 services with problems", "problems=true&amp;page=2"],
    );
}

/// A service whose texts would be markup if anybody let them.
pub(crate) fn put_hostile(site: &Site) {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: \"<script>alert(1)\", namespace: \"a\\\"'><img src=x>\"}\n\
                spec: {clusterIP: 10.96.7.7, ports: [{port: 80, name: \"</td><script>alert(2)</script>\"}]}\n";
    site.folder.put_text("hostile.yaml", text);
    await_services(site, 1);
}

fn hostile() {
    let site = Site::start(&[]);
    put_hostile(&site);
    let shown = "&lt;script&gt;alert(1)";
    for query in [
        "",
        "?q=alert",
        "?problems=true",
        "?to=10.96.7.7:80",
        "?service=a%22%27%3E%3Cimg%20src=x%3E/%3Cscript%3Ealert(1)",
    ] {
        let page = page(&site, query);
        assert_words(&page, &[shown]);
        assert!(page.matches("<script").count() == 1 && !page.contains("<img"), "{query}\n{page}");
    }
    for name in ["q", "to", "from", "service", "page", "problems", "other"] {
        let page = page(&site, &format!("?to=x&{name}=%22%3E%3Cscript%3Ealert(4)%3C/script%3E"));
        assert_eq!(page.matches("<script").count(), 1, "{name}\n{page}");
    }
    assert_eq!(site.get(PAGES, "/?q=%ff").code, 400);
}

fn counted() {
    let site = Site::start(&["--proxy-mode=nftables", "--service-counters"]);
    site.put_checked("web", 32000);
    site.put_endpoints("web", Family::V4, 1);
    await_services(&site, 1);
    // Counters are read because somebody asks, and rates take two readings.
    site.await_reply(PAGES, "/?service=default/web", |reply| {
        reply.body.contains("0.0 connections/s, 0 B/s in")
    });
    let without = self::site();
    assert!(!page(&without, "?service=default/web").contains("Traffic</th>"));
}

/// Another address of the machine stands for a pod. The one that is called stands for the forwarder, which calls any endpoint
/// for any pod.
fn kept() {
    let namespace = Namespace::new().unwrap();
    namespace.run(|| {
        let mut links = Links::open().unwrap();
        for address in ["10.9.9.8/32", "10.9.9.9/32"] {
            links.add_address("lo", address.parse().unwrap()).unwrap();
        }
    });
    let folder = ManifestFolder::create();
    folder.put("node", &manifest::node(NODE, "zone-1", &["10.9.9.9".parse().unwrap()]));
    let site = Site::over(namespace, folder, &["--metrics-bind-address=0.0.0.0:10249"]);
    let code = |from: &str, path: &str| {
        let mut stream = site.namespace.run(|| ask::connect_from(from.parse().unwrap(), "10.9.9.9:10249"));
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 10.9.9.9\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        String::from_utf8_lossy(&head[9..]).into_owned()
    };
    for path in ["facts", "log", "ruleset", "diff", "trace?to=10.96.0.1&for=1s"] {
        let path = format!("/pointsman/v1/{path}");
        assert_eq!(code("10.9.9.8", &path), "403", "{path}");
        assert_eq!(code("10.9.9.9", &path), "403", "{path}");
        assert_eq!(code("127.0.0.1", &path), "200", "{path}");
    }
    for path in ["/metrics", "/", "/pointsman/v1/services", "/pointsman/v1/status"] {
        assert_eq!(code("10.9.9.8", path), "200", "{path}");
    }
    for agent in ["10.9.9.9:10249", "127.0.0.1:10249"] {
        let words = ["trace", "10.96.0.1", "--for=1s", "--agent", agent];
        let output = command(&site.namespace, &words);
        assert!(output.status.success(), "{agent}: {output:?}");
    }
}

fn guarded() {
    let site = site();
    let ask = |method: &str, path: &str, header: &str| {
        ask::ask(&site.namespace, PAGES, method, path, &[header], "").unwrap()
    };
    for path in
        ["/", "/pointsman/v1/status", "/pointsman/v1/services", "/pointsman/v1/explain?to=10.96.1.1:53"]
    {
        let code = |method: &str| ask(method, path, "X: y").code;
        assert_eq!(["POST", "PUT", "DELETE"].map(code), [405; 3], "{path}");
        assert_eq!(site.get(PAGES, path).code, 200, "{path}");
        let stranger = ask::ask_host(&site.namespace, PAGES, "rebound.example:10249", path).unwrap();
        assert_eq!(stranger.code, 421, "{path}: {}", stranger.body);
    }
    let scraper = ask::ask_host(&site.namespace, PAGES, "node-1.example.org", "/metrics").unwrap();
    assert_eq!(scraper.code, 200, "metrics are served under any name");
    for (path, kind) in
        [("/", "text/html"), ("/pointsman/page.js", "text/javascript"), ("/pointsman/page.css", "text/css")]
    {
        let reply = site.get(PAGES, path);
        let header = |name: &str| reply.header(name).unwrap_or_default();
        assert!(header("Content-Type").starts_with(kind), "{path}");
        assert!(
            header("Content-Security-Policy").starts_with("default-src 'none'; script-src 'self';"),
            "{path}"
        );
        assert_eq!(
            (header("Cache-Control"), header("X-Content-Type-Options")),
            ("no-store", "nosniff"),
            "{path}"
        );
    }
    assert_eq!(ask("HEAD", "/", "X: y").body, "");
}

fn unchanged() {
    let site = site();
    let with_tag = |tag: &str| {
        ask::ask(&site.namespace, PAGES, "GET", "/", &[&format!("If-None-Match: {tag}")], "").unwrap()
    };
    let tag = |reply: &Reply| reply.header("ETag").unwrap().to_owned();
    let first = site.get(PAGES, "/");
    assert_eq!(with_tag(&tag(&first)).code, 304);
    assert_eq!(site.get(PAGES, "/?q=web").code, 200);
    assert_ne!(tag(&site.get(PAGES, "/?q=web")), tag(&first));
    put_empty(&site, "another", "10.96.1.2");
    await_services(&site, 3);
    let next = with_tag(&tag(&first));
    assert_eq!(next.code, 200);
    assert_words(&next.body, &["another"]);
}
