//! `/pointsman/v1/`: what the commands ask, and anybody else may: JSON under paths that stay. `docs/ask.md` describes it.

use std::net::IpAddr;

use config::version;
use hyper::StatusCode;
use kernel::link::Links;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::router::{Router, Slow};
use super::{api_diff, api_services};
use crate::explain::{self, Read};
use crate::questions::{Asker, ExplainRequest, Sender, Unanswered};
use commands::paths::{DIFF, EXPLAIN, SERVICES, VERSION_HEADER};
use commands::targets::{self, Target};

/// Looks that find a difference are repeated: a sync may have come between the plan and the reading.
const LOOKS: usize = 2;

pub(super) fn api(router: Router, sync_thread: &Asker) -> Router {
    let (explainer, lister, comparer) = (sync_thread.clone(), sync_thread.clone(), sync_thread.clone());
    router
        .slow(DIFF, move |asked| {
            let sync_thread = comparer.clone();
            Box::pin(async move {
                let query = asked.parts.uri.query().unwrap_or_default();
                respond(api_diff::diff(query, &sync_thread).await)
            }) as Slow
        })
        .slow(EXPLAIN, move |asked| {
            let sync_thread = explainer.clone();
            Box::pin(async move {
                let query = asked.parts.uri.query().unwrap_or_default();
                respond(explain(query, &sync_thread).await)
            }) as Slow
        })
        .slow(SERVICES, move |asked| {
            let sync_thread = lister.clone();
            Box::pin(async move {
                let query = asked.parts.uri.query().unwrap_or_default();
                respond(api_services::services(query, &sync_thread).await)
            }) as Slow
        })
}

/// Why a question is not answered: the code, and a sentence.
pub(super) type Refused = (StatusCode, String);

pub(super) fn respond(outcome: Result<Value, Refused>) -> Answer {
    let answer = match outcome {
        Ok(document) => answer::json(StatusCode::OK, format!("{document:#}\n")),
        Err((code, problem)) => answer::json(code, format!("{:#}\n", json!({ "error": problem }))),
    };
    answer::with_header(answer, VERSION_HEADER, version::FULL)
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

async fn explain(query: &str, sync_thread: &Asker) -> Result<Value, Refused> {
    let target = match (parameter(query, "to")?, parameter(query, "service")?) {
        (Some(to), None) => targets::read_packet(&to).map_err(bad)?,
        (None, Some(service)) => targets::read_service(&service).map_err(bad)?,
        _ => return Err(bad("give either to=[PROTOCOL:]ADDRESS:PORT or service=NAMESPACE/NAME[:PORT]")),
    };
    let from = parameter(query, "from")?.map(|text| targets::read_client(&text)).transpose().map_err(bad)?;
    if let (Target::At(_, to), Some(from)) = (&target, from)
        && to.is_ipv4() != from.is_ipv4()
    {
        return Err(bad(format!("{from} and {} are of different IP families", to.ip())));
    }
    let from = from.map(|ip| Sender { ip, interface: interface_toward(ip) });
    let request = ExplainRequest { target, from };
    for _ in 1..LOOKS {
        let (explanations, read) = ask(&request, sync_thread).await?;
        let differs = |read: &Read| matches!(read, Some(Ok(found)) if !found.differences.is_empty());
        if !read.iter().any(differs) {
            return Ok(explain::document(&explanations, &read));
        }
    }
    let (explanations, read) = ask(&request, sync_thread).await?;
    Ok(explain::document(&explanations, &read))
}

async fn ask(
    request: &ExplainRequest,
    sync_thread: &Asker,
) -> Result<(crate::questions::Explanations, Vec<Read>), Refused> {
    let mut explanations = sync_thread.explain(request.clone()).await.map_err(unanswered)?;
    let mut read = Vec::with_capacity(explanations.each.len());
    for look in explain::take_looks(&mut explanations) {
        let Some(look) = look else {
            read.push(None);
            continue;
        };
        let outcome = tokio::task::spawn_blocking(move || look.finish()).await;
        read.push(Some(outcome.unwrap_or_else(|error| Err(error.into()))));
    }
    Ok((explanations, read))
}

/// By the route back to it, which is where its packets come in unless routing is asymmetric.
fn interface_toward(ip: IpAddr) -> Option<String> {
    Links::open().and_then(|mut links| links.interface_toward(ip)).ok().flatten()
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
