//! What is served beside the metrics.

use serde_json::Value;

use crate::ask::{PAGES, PROBES};
use crate::configurations::flat;
use crate::differences::{Topic, review};
use crate::pair::Pair;

/// Every path that one of the two might serve. Profiles of processor time last a second.
pub(crate) const PATHS: &[(u16, &str)] = &[
    (PROBES, "/"),
    (PROBES, "/healthz"),
    (PROBES, "/livez"),
    (PROBES, "/readyz"),
    (PAGES, "/"),
    (PAGES, "/healthz"),
    (PAGES, "/healthz?verbose"),
    (PAGES, "/healthz/ping"),
    (PAGES, "/livez"),
    (PAGES, "/readyz"),
    (PAGES, "/metrics"),
    (PAGES, "/metrics/slis"),
    (PAGES, "/proxyMode"),
    (PAGES, "/configz"),
    (PAGES, "/flagz"),
    (PAGES, "/statusz"),
    (PAGES, "/debug/flags"),
    (PAGES, "/debug/flags/"),
    (PAGES, "/debug/flags/v"),
    (PAGES, "/debug/pprof"),
    (PAGES, "/debug/pprof/"),
    (PAGES, "/debug/pprof/profile?seconds=1"),
    (PAGES, "/debug/pprof/heap"),
    (PAGES, "/debug/pprof/allocs"),
    (PAGES, "/debug/pprof/cmdline"),
    (PAGES, "/debug/pprof/symbol"),
    (PAGES, "/debug/pprof/goroutine"),
    (PAGES, "/debug/pprof/threadcreate"),
    (PAGES, "/debug/pprof/block"),
    (PAGES, "/debug/pprof/mutex"),
    (PAGES, "/debug/pprof/trace?seconds=1"),
];

/// Forms of the pages that have several.
const FORMS: &[&str] = &[
    "",
    "*/*",
    "text/plain",
    "application/json;as=Flagz;v=v1beta1;g=config.k8s.io",
    "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
    "application/yaml;as=Statusz;v=v1alpha1;g=config.k8s.io",
    "application/json",
    "image/png",
];

pub(crate) fn compared(pair: &Pair) {
    let plain = PATHS.iter().map(|(port, path)| (*port, *path, ""));
    let forms = ["/flagz", "/statusz"]
        .into_iter()
        .flat_map(|path| FORMS.iter().map(move |form| (PAGES, path, *form)));
    let mut found = Vec::new();
    for (port, path, accept) in plain.chain(forms) {
        let [ours, theirs] = [&pair.ours, &pair.theirs].map(|side| {
            let answer = side.accepting(port, path, accept);
            (answer.status, answer.kind)
        });
        if ours != theirs {
            let accept = if accept.is_empty() { String::new() } else { format!(" as {accept}") };
            found.push(format!("{port}{path}{accept}: {theirs:?} upstream, {ours:?} here"));
        }
    }
    review(Topic::Pages, found);
}

pub(crate) fn contents(pair: &Pair) {
    for path in ["/proxyMode", "/healthz", "/healthz/ping"] {
        let [ours, theirs] = [&pair.ours, &pair.theirs].map(|side| side.get(PAGES, path).body);
        assert_eq!(ours, theirs, "{path}");
    }
    let [ours, theirs] = [&pair.ours, &pair.theirs].map(|side| {
        let text = side.get(PAGES, "/configz").body.replace(&format!("\"{}\"", side.name), "\"this node\"");
        flat(&serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    });
    review(Topic::Configz, crate::configurations::differences(&ours, &theirs));
}
