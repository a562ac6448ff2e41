//! `/pointsman/v1/trace`: connections to one address as the kernel sees them, a line of JSON each, for as long as asked.

use std::time::Duration;

use commands::targets;
use dataplane::trace::Matching;
use hyper::StatusCode;

use super::api::{Refused, bad, headed, parameter, respond};
use crate::questions::Asker;
use crate::trace;
use web::answer::{self, Answer};
use web::body::Body;
use web::router::Slow;

pub(super) fn page(sync_thread: &Asker) -> impl Fn(String) -> Slow + use<> {
    let sync_thread = sync_thread.clone();
    move |query| {
        let sync_thread = sync_thread.clone();
        Box::pin(
            async move { begin(&query, sync_thread).await.unwrap_or_else(|refused| respond(Err(refused))) },
        )
    }
}

async fn begin(query: &str, sync_thread: Asker) -> Result<Answer, Refused> {
    let (matching, lasts) = read(query)?;
    let lines = trace::start(matching, lasts, sync_thread).await;
    let lines = lines.map_err(|problem| (StatusCode::SERVICE_UNAVAILABLE, problem))?;
    let mut answer = answer::typed(StatusCode::OK, "application/x-ndjson", "");
    *answer.body_mut() = Body::Pieces(lines);
    Ok(headed(answer))
}

fn read(query: &str) -> Result<(Matching, Duration), Refused> {
    let Some(to) = parameter(query, "to")? else {
        return Err(bad("give to=[PROTOCOL:]ADDRESS[:PORT]"));
    };
    let (protocol, to, port) = targets::read_traced(&to).map_err(bad)?;
    let from = parameter(query, "from")?.map(|text| targets::read_client(&text)).transpose().map_err(bad)?;
    if let Some(from) = from.filter(|from| from.is_ipv4() != to.is_ipv4()) {
        return Err(bad(format!(
            "{from} and {to} are of different IP families; name a client of the same one"
        )));
    }
    let lasts = match parameter(query, "for")? {
        Some(text) => targets::read_lasting(&text).map_err(|problem| bad(format!("for: {problem}")))?,
        None => targets::USUAL_TRACE,
    };
    Ok((Matching { protocol, to, port, from }, lasts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_checked() {
        let (matching, lasts) = read("to=udp:10.96.0.10:53&from=10.1.0.1&for=2m").unwrap();
        assert_eq!((matching.port, lasts.as_secs()), (Some(53), 120));
        assert_eq!(read("to=10.96.0.10").unwrap().1, targets::USUAL_TRACE);
        for query in
            ["", "to=web", "to=10.96.0.10&from=::1", "to=10.96.0.10&for=1h", "to=10.96.0.10&for=soon"]
        {
            assert_eq!(read(query).unwrap_err().0, StatusCode::BAD_REQUEST, "{query}");
        }
    }
}
