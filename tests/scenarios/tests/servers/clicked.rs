//! The page in a real browser: forms, links and the way back, and that it follows changes without being loaded again.

use model::{Family, Protocol};
use serde_json::json;
use test_support::{Case, ServiceManifest};

use crate::browser::{Browser, picture_folder, with_browser};
use crate::page;
use crate::site::{PAGES, Site};

pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![
        with_browser("the page is clicked through in a browser", clicked),
        with_browser("the page follows changes without being loaded again", live),
        with_browser("the page works in a browser without scripts", without_scripts),
        with_browser("no text of an object becomes a script in a browser", hostile),
        with_browser("the page fits a narrow screen", narrow),
        with_browser("the page as the documents show it", drawn),
    ]
}

const WIDE: (u32, u32) = (1200, 900);

fn url(query: &str) -> String {
    format!("http://{PAGES}/{query}")
}

/// Something that a load of the page would forget.
fn mark(browser: &mut Browser) {
    browser.value("window.marked = true");
}

fn assert_not_loaded_again(browser: &mut Browser) {
    assert_eq!(browser.value("window.marked"), true, "the page was loaded again");
}

fn clicked() {
    let site = page::site();
    let mut browser = Browser::start(&site.namespace, WIDE);
    browser.visit(&url(""));
    browser.await_text("#live", "live");
    browser.await_text("#status", "Healthy");
    mark(&mut browser);

    browser.write("input[name=to]", "udp:10.96.1.1:53");
    browser.press_enter();
    browser.await_text("#answer", "rejected");
    browser.await_text("#answer", "To do");
    assert_eq!(browser.value("new URLSearchParams(location.search).get('to')"), "udp:10.96.1.1:53");

    browser.write("input[name=q]", "web");
    browser.await_text("#services .count", "1–1 of 1 service");
    browser.write("input[name=q]", "");
    browser.press_enter();
    browser.await_text("#services .count", "of 2 services");
    browser.click("input[name=problems]");
    browser.await_text("#services .count", "1–1 of 1 service with problems");
    browser.click("input[name=problems]");
    browser.await_text("#services .count", "of 2 services");

    browser.click("#services a[href*='default/web']");
    browser.await_text("#service", "10.1.0.1:8080");
    browser.await_text("#service", "not used: terminating");
    browser.click("#service td a");
    browser.await_text("#answer", "default/web, port main: this is its cluster IP");
    assert_eq!(
        browser.value("document.querySelector('input[name=to]').value !== ''"),
        true,
        "the form follows"
    );
    browser.value("history.back()");
    browser.await_text("#service", "10.1.0.1:8080");
    browser.click("#service .title a");
    browser.await_true("document.querySelector('#service').innerText === ''");
    assert_not_loaded_again(&mut browser);

    let status = browser.value("fetch('pointsman/v1/status').then((reply) => reply.json())");
    assert_eq!((&status["node"], &status["healthy"]), (&json!("node-1"), &json!(true)));
    browser.assert_content();
}

fn live() {
    let mut site = page::site();
    let mut browser = Browser::start(&site.namespace, WIDE);
    browser.visit(&url("?service=default/empty"));
    browser.await_text("#live", "live");
    mark(&mut browser);
    browser.click("#sync-table summary");
    let syncs = browser.value("document.querySelectorAll('.chart rect').length").as_u64();
    let late = ServiceManifest::new("late", &["10.96.1.9".parse().unwrap()]).port("x", Protocol::Tcp, 80, 0);
    site.folder.put_service(&late);
    browser.await_text("#services", "late");
    browser.await_text("#services .count", "2 with problems");
    site.put_endpoints("empty", Family::V4, 1);
    browser.await_text("#service", "its slice has no port of this name and protocol");
    assert!(browser.value("document.querySelectorAll('.chart rect').length").as_u64() > syncs);
    browser.await_true("document.querySelector('#sync-table').open");
    assert_not_loaded_again(&mut browser);
    browser.assert_content();

    site.agent.stop().unwrap();
    browser.await_text("#live", "No answer from the agent; retrying");
    site.agent.restart().unwrap();
    browser.await_text("#live", "live");
    browser.await_text("#services", "late");
    assert_not_loaded_again(&mut browser);
}

fn without_scripts() {
    let site = page::site();
    let mut browser = Browser::start(&site.namespace, WIDE);
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.visit(&url(""));
    browser.await_text("#status", "UTC");
    assert_eq!(browser.value("document.querySelector('#live').innerText"), "", "the script ran");
    browser.write("input[name=to]", "udp:10.96.1.1:53");
    browser.click("form[data-live=answer] button");
    browser.await_text("#answer", "rejected");
    browser.click("input[name=problems]");
    browser.click("form[data-live=services] button");
    browser.await_text("#services .count", "1–1 of 1 service with problems");
    browser.click("#services a[href*='default/empty']");
    browser.await_text("#service", "rejected");
    browser.assert_content();
}

fn hostile() {
    let site = Site::start(&[]);
    page::put_hostile(&site);
    let mut browser = Browser::start(&site.namespace, WIDE);
    let script = "%22%27%3E%3Cscript%3Ealert(9)%3C/script%3E%3Cimg%20src=x%20onerror=alert(8)%3E";
    for query in [
        "".to_owned(),
        "?to=10.96.7.7:80".to_owned(),
        format!("?q={script}"),
        format!("?to={script}&from={script}"),
    ] {
        browser.visit(&url(&query));
        browser.await_text("#live", "live");
        assert_eq!(browser.value("document.querySelectorAll('script, img, style').length"), 1, "{query}");
    }
    browser.visit(&url(""));
    browser.click("#services th a");
    browser.await_text("#service", "<script>alert(1)");
    browser.assert_content();
    // A script that got in all the same would not run.
    browser.value("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))");
    assert_eq!(browser.value("window.ran === undefined"), true, "the policy lets scripts in");
}

fn narrow() {
    let site = page::site();
    let mut browser = Browser::start(&site.namespace, (360, 740));
    for query in ["", "?service=default/web", "?to=udp:10.96.1.1:53"] {
        browser.visit(&url(query));
        browser.await_text("#live", "live");
        let width = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(width <= 360, "{query} is {width} wide");
    }
    browser.assert_content();
}

/// `UPDATE_PICTURES=1 cargo test -p pointsman-scenarios --test servers -- "as the documents"` writes `docs/page.png`.
fn drawn() {
    let site = Site::start(&["--cluster-cidr=10.244.0.0/16", "--proxy-mode=nftables"]);
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/manifests");
    for name in ["web", "shop", "cart", "dns"] {
        let text = std::fs::read_to_string(format!("{examples}/{name}.yaml")).unwrap();
        site.folder.put_text(&format!("{name}.yaml"), &text);
        let is_there = format!("\"name\":\"{name}\"");
        site.await_reply(PAGES, "/pointsman/v1/services", |reply| reply.body.contains(&is_there));
    }
    let orders =
        ServiceManifest::new("orders", &["10.96.0.40".parse().unwrap()]).port("http", Protocol::Tcp, 80, 0);
    site.folder.put_service(&orders);
    page::await_services(&site, 5);
    let mut browser = Browser::start(&site.namespace, (1060, 1370));
    browser.visit(&url("?to=10.96.0.40:80&from=10.244.1.9"));
    browser.await_text("#live", "live");
    browser.await_text("#answer", "rejected");
    browser.await_text("#services .count", "1 with problems");
    let picture = browser.picture();
    assert_eq!(picture.get(1..4), Some(&b"PNG"[..]));
    assert!(picture.len() > 20_000, "{} bytes: nothing is drawn", picture.len());
    if let Some(folder) = picture_folder() {
        std::fs::write(folder.join("page.png"), picture).unwrap();
    }
    browser.assert_content();
}
