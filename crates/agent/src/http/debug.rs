//! Pages for people who debug: `/configz`, `/flagz`, `/statusz`, and with `enableProfiling` what is under `/debug/`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use cluster::apiserver::masked;
use cluster::timestamp::format_micros;
use config::{Node, Options, flags, version};
use hyper::{Method, StatusCode};

use super::Context;
use telemetry::logging;
use web::answer::{self, Answer};
use web::guard;
use web::negotiate;
use web::router::{Asked, Router, Slow};

const WARNING: &str = "Warning: for debugging only; this text may change in any release.";

pub(super) fn configz(router: Router, options: &Options) -> Router {
    let body = format!("{{\"kubeproxy.config.k8s.io\":{}}}", options.pages.configz);
    router.page("/configz", move |_| answer::json(StatusCode::OK, body.clone()))
}

pub(super) fn flagz(router: Router, options: &Options, context: &Context) -> Router {
    if !options.pages.has_flagz {
        return router;
    }
    let values = flag_values(&context.arguments);
    router.page("/flagz", move |parts| {
        let lines: Vec<String> = values.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        let text = || format!("\nkube-proxy flagz\n{WARNING}\n{}", lines.concat());
        let named = || values.iter().map(|(name, value)| ((*name).to_owned(), Node::text(value.as_str())));
        negotiate::answer(parts, "Flagz", text, || vec![("flags", Node::Map(named().collect()))])
    })
}

/// A password in a URL stays out.
fn flag_values(arguments: &[String]) -> BTreeMap<&'static str, String> {
    flags::values(arguments, masked)
}

pub(super) fn statusz(router: Router, options: &Options, context: &Context) -> Router {
    if !options.pages.has_statusz {
        return router;
    }
    let (paths, started) = (tops(router.paths()), context.started);
    router.page("/statusz", move |parts| {
        let status = Status { paths: &paths, started, now: SystemTime::now() };
        negotiate::answer(parts, "Statusz", || status.text(), || status.fields())
    })
}

/// The first part of each path, once.
fn tops<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut tops: Vec<String> =
        paths.filter_map(|path| path.split('/').nth(1)).map(|top| format!("/{top}")).collect();
    tops.sort();
    tops.dedup();
    tops
}

fn binary_version() -> &'static str {
    version::FULL.trim_start_matches('v')
}

/// The release whose behaviour this is.
fn emulation_version() -> String {
    let (major, minor) = version::KUBERNETES;
    format!("{major}.{minor}")
}

struct Status<'a> {
    paths: &'a [String],
    started: SystemTime,
    now: SystemTime,
}

impl Status<'_> {
    fn uptime(&self) -> u64 {
        self.now.duration_since(self.started).unwrap_or_default().as_secs()
    }

    /// To the second.
    fn start(&self) -> String {
        let exact = format_micros(self.started);
        exact.split_once('.').map_or(exact.clone(), |(seconds, _)| format!("{seconds}Z"))
    }

    fn text(&self) -> String {
        let up = self.uptime();
        format!(
            "\nkube-proxy statusz\n{WARNING}\n\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nProgram: Pointsman, in Rust\n\
             Binary version: {}\nEmulation version: {}\nPaths: {}\n",
            self.start(),
            up / 3600,
            up / 60 % 60,
            up % 60,
            binary_version(),
            emulation_version(),
            self.paths.join(" ")
        )
    }

    fn fields(&self) -> Vec<(&'static str, Node)> {
        vec![
            ("startTime", Node::text(self.start())),
            ("uptimeSeconds", Node::Number(self.uptime().to_string())),
            // The field must be there; this is no Go program.
            ("goVersion", Node::text("")),
            ("binaryVersion", Node::text(binary_version())),
            ("emulationVersion", Node::text(emulation_version())),
            ("paths", Node::List(self.paths.iter().map(|path| Node::text(path.as_str())).collect())),
        ]
    }
}

/// The level of the log, to be set while the agent runs.
pub(super) fn levels(router: Router, node: &str) -> Router {
    let node = node.to_owned();
    let index = |_: &_| answer::text(StatusCode::OK, "PUT a log level such as 4 to /debug/flags/v\n");
    router.unlisted("/debug/flags", index).unlisted("/debug/flags/", index).slow(
        "/debug/flags/v",
        move |asked| match guard::refuse_strangers(&asked.parts, &node) {
            Some(refusal) => Box::pin(async { refusal }) as Slow,
            None => Box::pin(set_verbosity(asked)) as Slow,
        },
    )
}

/// `curl -X PUT -d 4 …/debug/flags/v`, with the codes of other Kubernetes components.
async fn set_verbosity(asked: Asked) -> Answer {
    if asked.parts.method != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method: use PUT with a level, such as 4");
    }
    match asked.text().await {
        Err((status, why)) => plain(status, why.trim_end()),
        Ok(level) => match logging::set_verbosity(&level) {
            Ok(done) => plain(StatusCode::OK, &done),
            Err(problem) => plain(StatusCode::BAD_REQUEST, &problem),
        },
    }
}

fn plain(status: StatusCode, text: &str) -> Answer {
    answer::typed(status, "text/plain", format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::json;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn flags_are_told_without_a_password() {
        let values = flag_values(&["--master=https://me:secret@host:6443/x@y".to_owned()]);
        assert_eq!(values["master"], "https://host:6443/x@y");
    }

    #[test]
    fn status_tells_since_when_and_what() {
        let paths = tops(["/metrics", "/metrics/slis", "/configz", "/debug/pprof/"].into_iter());
        assert_eq!(paths, ["/configz", "/debug", "/metrics"]);
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let status = Status { paths: &paths, started: at(60), now: at(60 + 3725) };
        assert!(status.text().contains("Started: 1970-01-01T00:01:00Z\nUp: 1 hr 02 min 05 sec\n"));
        let fields =
            Node::Map(status.fields().into_iter().map(|(name, node)| (name.to_owned(), node)).collect());
        let text = json::line(&fields);
        assert!(text.contains("\"startTime\":\"1970-01-01T00:01:00Z\",\"uptimeSeconds\":3725"), "{text}");
        assert!(text.contains("\"paths\":[\"/configz\",\"/debug\",\"/metrics\"]"), "{text}");
    }
}
