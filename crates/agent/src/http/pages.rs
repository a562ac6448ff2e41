//! What is served beside the metrics on `metricsBindAddress`: `/healthz`, `/metrics`, `/proxyMode` and more.

use std::time::UNIX_EPOCH;

use config::Options;
use hyper::StatusCode;
use hyper::http::request::Parts;
use tokio::sync::Semaphore;

use super::api_status::Identity;
use super::profiles;
use super::{Context, api, api_bundle, debug, looking, page, service_page};
use web::answer::{self, Answer};
use web::guard;
use web::router::Router;

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

static SCRAPES: Semaphore = Semaphore::const_new(1);

pub(super) fn router(options: &Options, context: &Context) -> Router {
    let mode = options.mode.word();
    let checks = context.metrics.clone();
    let (metrics, slis) = (context.clone(), context.clone());
    let router = Router::default()
        .page("/healthz", move |parts| {
            checks.probes().checked("ping", "healthz", true);
            healthz(parts)
        })
        .unlisted("/healthz/ping", |_| answer::text(StatusCode::OK, "ok"))
        .slow("/metrics", move |_| Box::pin(scraped(metrics.clone())))
        .listed()
        .page("/metrics/slis", move |_| measured(&slis, slis.metrics.slis()))
        .page("/proxyMode", move |_| answer::text(StatusCode::OK, mode));
    let router = match options.pages.has_profiles {
        true => {
            let router = debug::levels(with_profiles(router), &options.node_name);
            service_page::service(router, &context.sync_thread, &options.node_name)
        }
        false => router,
    };
    let identity = Identity { node: options.node_name.clone(), mode };
    let router = api::api(router, &identity, context);
    let router = api_bundle::parts(router, &identity, options, context);
    let router = debug::flagz(debug::configz(router, options), options, context);
    let router = debug::statusz(router, options, context);
    page::page(router, identity, context)
}

/// The server answers, and says so. How the proxy fares is said on the other port.
fn healthz(parts: &Parts) -> Answer {
    let query = parts.uri.query().unwrap_or_default();
    let is_verbose = query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
    answer::text(StatusCode::OK, if is_verbose { "[+]ping ok\nhealthz check passed\n" } else { "ok" })
}

/// Some values are asked of the kernel, and probes must not wait for its answer.
async fn scraped(context: Context) -> Answer {
    let metrics = context.metrics.clone();
    match looking::in_turn(&SCRAPES, move || metrics.text()).await {
        Ok(text) => measured(&context, text),
        Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn measured(context: &Context, text: String) -> Answer {
    let started = context.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let answer = answer::typed(StatusCode::OK, METRICS, text);
    answer::with_header(answer, "process-start-time-unix", &started.to_string())
}

fn with_profiles(router: Router) -> Router {
    let redirect = |_: &Parts| {
        let answer = answer::text(StatusCode::FOUND, "");
        answer::with_header(answer, "location", profiles::PREFIX)
    };
    router.unlisted(profiles::PREFIX.trim_end_matches('/'), redirect).tree(profiles::PREFIX, |asked| {
        Box::pin(async move {
            if let Some(refusal) = guard::refuse_other_sites(&asked.parts) {
                return refusal;
            }
            let uri = &asked.parts.uri;
            profiles::respond(uri.path(), uri.query()).await
        })
    })
}
