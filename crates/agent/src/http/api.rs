//! `/pointsman/v1/`: what the commands ask, and anybody else may: JSON under paths that stay. `docs/ask.md` describes it.

use std::net::IpAddr;

use config::version;
use hyper::StatusCode;
use hyper::http::request::Parts;
use kernel::link::Links;
use model::Family;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::api_status::{self, Identity, STATUS};
use super::{Context, api_diff, api_services, api_trace, looking, probes};
use crate::explain::{self, Read};
use crate::questions::{Asker, ExplainRequest, MOST_ENDPOINTS, Sender, Unanswered};
use commands::paths::{DIFF, EXPLAIN, SERVICES, TRACE, VERSION_HEADER};
use commands::targets::{self, Target};
use web::answer::{self, Answer};
use web::guard;
use web::router::{Router, Slow};

pub(super) fn api(router: Router, identity: &Identity, context: &Context) -> Router {
    let of_diff = context.clone();
    let router = kept(router, DIFF, identity, move |query| {
        let context = of_diff.clone();
        async move { respond(diff(&query, &context).await) }
    });
    let router = question(router, EXPLAIN, identity, context, async |query, context| {
        asked_to_explain(&query, &context).await.map(|document| pretty(&document))
    });
    let router = question(router, SERVICES, identity, context, async |query, context| {
        has_written(&context)?;
        api_services::services(&query, &context.sync_thread, context.metrics.traffic()).await
    });
    let router = kept(router, TRACE, identity, api_trace::page(&context.sync_thread));
    let of = identity.clone();
    question(router, STATUS, identity, context, move |_, context| {
        let status = pretty(&api_status::status(&of, &context));
        async { Ok(status) }
    })
}

async fn diff(query: &str, context: &Context) -> Result<String, Refused> {
    has_written(context)?;
    let mut document = api_diff::diff(query, written(context), &context.sync_thread).await?;
    // What was written is compared, not what is planned.
    document["pending"] = context.health.has_waiting().into();
    Ok(pretty(&document))
}

/// Before the first sync there is nothing to tell, and rules of an earlier run may lead packets elsewhere.
pub(super) fn has_written(context: &Context) -> Result<(), Refused> {
    if written(context).contains(&true) { Ok(()) } else { Err(nothing_yet(context, "")) }
}

/// By [`Family::index`]: whether rules of it were written.
pub(super) fn written(context: &Context) -> [bool; 2] {
    context.health.report().families.map(|family| family.is_some())
}

fn nothing_yet(context: &Context, what: &str) -> Refused {
    let awaited = probes::awaited(&context.health.report()).join(" and ");
    let problem = format!(
        "nothing is programmed yet{what}; waiting for {awaited}; rules from an earlier run may still be active"
    );
    (StatusCode::SERVICE_UNAVAILABLE, problem)
}

/// A path whose answer takes the query and may wait for the sync thread.
fn question<F>(
    router: Router,
    path: &'static str,
    identity: &Identity,
    context: &Context,
    answer: impl Fn(String, Context) -> F + 'static,
) -> Router
where
    F: Future<Output = Result<String, Refused>> + 'static,
{
    let context = context.clone();
    guarded(router, path, identity, move |query| {
        let outcome = answer(query, context.clone());
        async { respond(outcome.await) }
    })
}

/// A path that is answered only under a name of this node.
pub(super) fn guarded<F>(
    router: Router,
    path: &'static str,
    identity: &Identity,
    answer: impl Fn(String) -> F + 'static,
) -> Router
where
    F: Future<Output = Answer> + 'static,
{
    checked(router, path, identity, |_| None, answer)
}

/// The same, for clients of this node only: what it costs, or tells, is not for every pod where the address is one of the
/// network.
pub(super) fn kept<F>(
    router: Router,
    path: &'static str,
    identity: &Identity,
    answer: impl Fn(String) -> F + 'static,
) -> Router
where
    F: Future<Output = Answer> + 'static,
{
    checked(router, path, identity, refuse_other_nodes, answer)
}

fn refuse_other_nodes(parts: &Parts) -> Option<Answer> {
    let problem = "available only to clients on this node that call from a loopback address; use kube-proxy's commands there, \
                   kubectl pointsman, or kubectl exec in its pod";
    (!guard::is_from_this_node(parts)).then(|| respond(Err((StatusCode::FORBIDDEN, problem.to_owned()))))
}

fn checked<F>(
    router: Router,
    path: &'static str,
    identity: &Identity,
    refuse: fn(&Parts) -> Option<Answer>,
    answer: impl Fn(String) -> F + 'static,
) -> Router
where
    F: Future<Output = Answer> + 'static,
{
    let node = identity.node.clone();
    router.slow(path, move |asked| {
        match guard::refuse(&asked.parts, &node).or_else(|| refuse(&asked.parts)) {
            Some(refusal) => Box::pin(async { refusal }) as Slow,
            None => Box::pin(answer(asked.parts.uri.query().unwrap_or_default().to_owned())) as Slow,
        }
    })
}

/// Why a question is not answered: the code, and a sentence.
pub(super) type Refused = (StatusCode, String);

pub(super) fn respond(outcome: Result<String, Refused>) -> Answer {
    headed(match outcome {
        Ok(text) => answer::json(StatusCode::OK, text),
        Err((code, problem)) => answer::json(code, pretty(&json!({ "error": problem }))),
    })
}

/// With the headers of every answer.
pub(super) fn headed(answer: Answer) -> Answer {
    let answer = answer::with_header(answer, "cache-control", "no-store");
    let answer = answer::with_header(answer, "cross-origin-resource-policy", "same-origin");
    answer::with_header(answer, VERSION_HEADER, version::FULL)
}

pub(super) fn pretty(document: &Value) -> String {
    format!("{document:#}\n")
}

pub(super) fn bad(problem: impl Into<String>) -> Refused {
    (StatusCode::BAD_REQUEST, problem.into())
}

pub(super) fn unanswered(why: Unanswered) -> Refused {
    (StatusCode::SERVICE_UNAVAILABLE, why.to_string())
}

/// The value of a parameter, if it is given.
pub(super) fn parameter(query: &str, name: &str) -> Result<Option<String>, Refused> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.into_iter().find(|(key, _)| *key == name) else { return Ok(None) };
    let value = value.replace('+', " ");
    let text = percent_decode_str(&value).decode_utf8();
    text.map(|text| Some(text.into_owned())).map_err(|_| bad(format!("{name} is not UTF-8")))
}

async fn asked_to_explain(query: &str, context: &Context) -> Result<Value, Refused> {
    let [to, service, from] = ["to", "service", "from"].map(|name| parameter(query, name));
    let [to, service, from] = [to?, service?, from?].map(Option::unwrap_or_default);
    explain(&to, &service, &from, MOST_ENDPOINTS, context).await
}

/// What becomes of a packet to `to`, or to `service`, and `from` there unless that is empty; with so many endpoints.
pub(super) async fn explain(
    to: &str,
    service: &str,
    from: &str,
    most_endpoints: usize,
    context: &Context,
) -> Result<Value, Refused> {
    let sync_thread = &context.sync_thread;
    let target = match (to.is_empty(), service.is_empty()) {
        (false, true) => targets::read_packet(to).map_err(bad)?,
        (true, false) => targets::read_service(service).map_err(bad)?,
        _ => return Err(bad("give either to=[PROTOCOL:]ADDRESS:PORT or service=NAMESPACE/NAME[:PORT]")),
    };
    let from = match from.is_empty() {
        true => None,
        false => Some(targets::read_client(from).map_err(bad)?),
    };
    if let (Target::At(_, to), Some(from)) = (&target, from)
        && to.is_ipv4() != from.is_ipv4()
    {
        return Err(bad(format!(
            "{from} and {} are of different IP families; name a client of the same one",
            to.ip()
        )));
    }
    let written = written(context);
    let unwritten = |family: &Family| nothing_yet(context, &format!(" for {family}"));
    if let Target::At(_, to) = &target
        && let family = Family::of(to.ip())
        && !written[family.index()]
    {
        return Err(unwritten(&family));
    }
    has_written(context)?;
    let from = match from {
        Some(ip) => Some(Sender { ip, interface: interface_toward(ip).await }),
        None => None,
    };
    let request = ExplainRequest { target, from, written, reads_kernel: true, most_endpoints };
    let (mut explanations, mut read) = ask(&request, sync_thread).await?;
    for _ in 1..looking::TRIES {
        let is_unsettled = |read: &Read| matches!(read, Some(Ok(found)) if found.unsettled > 0);
        // A further look may be refused because there were many: then what the last one found counts.
        if read.iter().any(is_unsettled)
            && let Ok(again) = ask(&request, sync_thread).await
            && again.1.iter().flatten().all(Result::is_ok)
        {
            (explanations, read) = again;
        }
    }
    match explanations.unwritten.first() {
        Some(family) if explanations.each.is_empty() => Err(unwritten(family)),
        _ => Ok(explain::document(&explanations, &read)),
    }
}

async fn ask(
    request: &ExplainRequest,
    sync_thread: &Asker,
) -> Result<(crate::questions::Explanations, Vec<Read>), Refused> {
    let mut explanations = sync_thread.explain(request.clone()).await.map_err(unanswered)?;
    let mut read = Vec::with_capacity(explanations.each.len());
    for look in explain::take_looks(&mut explanations) {
        read.push(match look {
            Some(look) => Some(looking::finish(look).await),
            None => None,
        });
    }
    Ok((explanations, read))
}

static ROUTES: Semaphore = Semaphore::const_new(1);

/// By the route back to it, which is where its packets come in unless routing is asymmetric.
/// The kernel may be busy with a change of its links, hence not on the event loop.
pub(crate) async fn interface_toward(ip: IpAddr) -> Option<String> {
    let found = move || Links::open().and_then(|mut links| links.interface_toward(ip)).ok().flatten();
    looking::in_turn(&ROUTES, found).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = "to=udp%3A10.96.0.10%3A53&from=10.0.0.1&note=a+b";
        assert_eq!(parameter(query, "to").unwrap().as_deref(), Some("udp:10.96.0.10:53"));
        assert_eq!(parameter(query, "note").unwrap().as_deref(), Some("a b"));
        assert_eq!(parameter(query, "other").unwrap(), None);
        assert!(parameter("to=%ff", "to").is_err());
    }
}
