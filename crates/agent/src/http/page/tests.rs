use std::time::Duration;

use config::FeatureGates;
use model::Family;
use serde_json::json;

use super::*;
use crate::health::Health;
use crate::inbox;
use crate::questions::Asker;
use telemetry::metrics::Metrics;

const HOSTILE: &str = "x\"'><script>alert(1)</script>&";

fn about() -> About {
    let identity = Identity { node: HOSTILE.to_owned(), mode: "nftables" };
    About { identity, paths: vec!["/metrics"], pace: Rc::new(Pace::new(0, Instant::now())) }
}

fn hostile_service() -> Value {
    json!({
        "namespace": HOSTILE, "name": HOSTILE, "type": HOSTILE, "clusterIPs": [HOSTILE], "externalIPs": [HOSTILE],
        "loadBalancerIPs": [HOSTILE], "affinitySeconds": 5, "sourceRangeCount": 2, "pending": true,
        "internalTrafficPolicy": "Local", "problems": [HOSTILE],
        "ports": [{
            "name": HOSTILE, "protocol": HOSTILE, "port": 80, "nodePort": 30080, "problems": [HOSTILE],
            "endpoints": { "IPv4": { "usable": 1, "known": 2 }, HOSTILE: { "usable": HOSTILE, "known": 1 } },
            "rates": { "connections": 1.25, "requestBytes": 1500, "replyBytes": HOSTILE },
        }],
    })
}

fn hostile_explanation() -> Value {
    let known = json!([
        { "address": HOSTILE, "node": HOSTILE, "used": true, "why": null },
        { "address": "10.1.0.1:80", "node": HOSTILE, "used": false, "why": HOSTILE },
    ]);
    let client = |kind: &str| json!({ "kind": kind, "verdict": HOSTILE, "endpointCount": 1, "known": known, "knownCount": 9 });
    json!({
        "verdict": HOSTILE, "problem": HOSTILE, "leftOut": 3, "text": format!("Packet     {HOSTILE}\n{HOSTILE}\n"),
        "explanations": [{
            "protocol": HOSTILE, "address": HOSTILE, "port": HOSTILE, "service": { "role": HOSTILE },
            "clients": [client("pod"), client("node")], "kernel": { "problem": HOSTILE },
        }],
    })
}

fn hostile_page() -> String {
    let text = || HOSTILE.to_owned();
    let wanted =
        Wanted { search: text(), only_problems: true, page: 2, service: text(), to: text(), from: text() };
    let sync = json!({ "time": HOSTILE, "family": HOSTILE, "microseconds": 5, "failed": false, "services": 1, "bytes": 1 });
    let family = json!({ "healthy": true, "lastUpdated": HOSTILE, "services": 1, "endpoints": 1 });
    let content = Content {
        wanted,
        status: json!({
            "started": HOSTILE, "awaiting": [HOSTILE], "syncs": [sync], "families": { "IPv4": family, "IPv6": family },
        }),
        listing: Ok(Listing {
            matching: 120,
            problems: 120,
            first: 50,
            page: 2,
            pages: 3,
            rows: vec![hostile_service()],
        }),
        is_whole: true,
        shown: Some(Shown { service: Ok(Some(hostile_service())), explained: Ok(hostile_explanation()) }),
        answer: Some(Ok(hostile_explanation())),
    };
    render(&content, &about(), HOSTILE).into_text()
}

/// Start tags and attributes of a page, read as strictly as a browser must: quotes end values and nothing else does.
fn tags(page: &str) -> Vec<(&str, Vec<(&str, &str)>)> {
    let mut tags = Vec::new();
    for part in page.split('<').skip(1) {
        let (inside, text) = part.split_once('>').unwrap_or_else(|| panic!("no end: <{part}"));
        assert!(!text.contains('>') && !text.contains('"'), "{text}");
        if inside.starts_with('/') || inside.starts_with('!') {
            continue;
        }
        let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
        let mut attributes = Vec::new();
        while let Some((name, value)) = rest.split_once("=\"") {
            let (value, next) = value.split_once('"').unwrap_or_else(|| panic!("no quote: {inside}"));
            attributes.push((name.trim(), value));
            rest = next;
        }
        tags.push((name.trim_end_matches('/'), attributes));
    }
    tags
}

#[test]
fn whatever_objects_and_visitors_write_stays_text() {
    let page = hostile_page();
    let tags = tags(&page);
    let scripts: Vec<_> = tags.iter().filter(|(name, _)| *name == "script").collect();
    assert_eq!(scripts, [&("script", vec![("src", "pointsman/page.js")])]);
    assert!(!page.contains("alert(1)</script>") && page.contains("&lt;script&gt;alert(1)"), "{page}");
    let known = [
        "a", "b", "body", "button", "dd", "details", "div", "dl", "dt", "footer", "form", "h1", "h2", "h3",
        "head", "header", "html", "input", "label", "line", "link", "main", "meta", "nav", "p", "rect",
        "script", "section", "span", "summary", "svg", "table", "tbody", "td", "text", "th", "thead", "time",
        "title", "tr", "wbr",
    ];
    for (name, attributes) in &tags {
        assert!(known.contains(name), "{name}");
        for (attribute, value) in attributes {
            assert!(!attribute.starts_with("on") && *attribute != "style", "{name} {attribute}");
            let is_link = ["href", "src", "action"].contains(attribute);
            let is_ours =
                value.starts_with(['?', '#']) || value.starts_with("pointsman/") || *value == "metrics";
            assert!(!is_link || is_ours || *value == "data:,", "{name} {attribute}={value}");
        }
    }
    let failure = failure(&about(), HOSTILE).into_text();
    assert_eq!(failure.matches("<script").count(), 1, "{failure}");
}

#[test]
fn rates_are_shown_where_there_are_any() {
    assert!(hostile_page().contains("1.2 connections/s, 1.5 kB/s in</td>"));
    assert_eq!(service::rate(&Value::Null), "");
    let rates = json!({ "seconds": 10, "connections": 0, "requestBytes": 2.5e6, "replyBytes": 12 });
    assert_eq!(service::rate(&rates), "0.0 connections/s, 2.5 MB/s in, 12 B/s out");
}

#[test]
fn inputs_have_labels_and_cells_have_headings() {
    let page = hostile_page();
    assert_eq!(page.matches("<input").count(), 4);
    for input in page.split("<input").skip(1) {
        let before = &page[..page.len() - input.len()].rsplit("<input").nth(1).unwrap();
        assert!(before.rfind("<label").is_some_and(|open| !before[open..].contains("</label>")), "{input}");
    }
    let cells = page.matches("<td data-label=\"").count();
    assert!(cells > 10 && cells == page.matches("<td").count(), "{page}");
}

#[test]
fn answers_forbid_everything_that_the_page_does_not_need() {
    let answer = hardened(answer::typed(StatusCode::OK, "text/html; charset=utf-8", ""));
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let policy = header("content-security-policy");
    let directives = [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ];
    for directive in directives.into_iter().chain(["form-action 'self'", "connect-src 'self'"]) {
        assert!(policy.split("; ").any(|one| one == directive), "{directive} is missing in {policy}");
    }
    assert!(!policy.contains("-inline") && !policy.contains("-eval"), "{policy}");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert_eq!(header("cache-control"), "no-store");
}

#[test]
fn nothing_of_the_page_comes_from_elsewhere() {
    for text in [STYLE, SCRIPT, &hostile_page()] {
        assert!(!["http:", "https:", "//fonts", "@import", "url("].iter().any(|word| text.contains(word)));
    }
    let size = STYLE.len() + SCRIPT.len();
    assert!(size < 16 * 1024, "{size} bytes of style and script: the agent is meant to be small");
}

#[test]
fn an_agent_that_writes_rules_for_long_still_shows_its_health() {
    let health = Health::new(Duration::from_secs(30));
    health.updated(Family::V4);
    // Nobody answers there.
    let (sender, _) = inbox::channel();
    let context = Context {
        health,
        metrics: Metrics::of_mode("nftables", &FeatureGates::default()),
        started: UNIX_EPOCH,
        arguments: Vec::new(),
        sync_thread: Asker::new(sender),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for query in ["", "service=default/web", "to=10.96.0.1:80"] {
        let content = runtime.block_on(gather(query, &about(), &context)).unwrap();
        let answer = shown(&content, &about(), "\"1\"");
        assert_eq!((answer.status(), answer.headers().get(ETAG)), (StatusCode::OK, None), "{query}");
        let page = render(&content, &about(), "").into_text();
        assert!(page.contains("<h2>IPv4</h2>") && page.contains("the agent is stopping"), "{query}: {page}");
        assert!(!page.contains("no such service"), "{page}");
    }
}

/// As people read it, without markup.
fn panel(service: Value, one: Value) -> String {
    let explained = json!({ "explanations": [one] });
    let mut html = Html::default();
    let shown = Shown { service: Ok(Some(service)), explained: Ok(explained) };
    service::panel(&mut html, &shown, &Wanted::default());
    let text = html.into_text();
    text.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect::<Vec<_>>().join("")
}

#[test]
fn a_service_is_not_said_to_be_better_than_it_is() {
    let known = |why| json!({ "address": "10.96.0.2:80", "node": "a", "used": true, "why": null, "leadsNowhere": why });
    let one = |kernel: Value| {
        let client = json!({
            "kind": "outside", "verdict": "forward", "endpointCount": 3, "needsSourceRange": true,
            "known": [known("clusterIP")], "knownCount": 3,
        });
        json!({
            "protocol": "tcp", "address": "10.96.0.1", "port": 80, "service": { "role": "clusterIP" },
            "clients": [client], "kernel": kernel,
        })
    };
    let text = panel(json!({}), one(json!({ "compared": 0, "differences": [] })));
    assert!(text.contains("forwarded to 3 endpoints, if its address is in the source ranges"), "{text}");
    assert!(text.contains("used, but its address is a cluster IP: connections go nowhere"), "{text}");
    assert!(text.contains("some of 3 endpoints of a port") && text.contains("not compared"), "{text}");
    let text = panel(json!({}), one(json!({ "compared": 9, "partial": true, "differences": [] })));
    assert!(text.contains("as written, as far as compared"), "{text}");
    let text = panel(json!({}), one(json!({ "compared": 9, "partial": false, "differences": [] })));
    assert!(text.contains("as written") && !text.contains("as far as"), "{text}");
}
