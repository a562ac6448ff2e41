//! `/`: the agent to look at. The page is made here and needs no script; a small one keeps it up to date. It shows what
//! `/pointsman/v1/` answers, and asks for nothing else.

mod chart;
mod explained;
mod html;
mod listing;
mod pace;
mod service;
mod services;
mod status;
mod wanted;

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use commands::paths;
use config::version;
use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::http::request::Parts;
use model::ServiceKey;
use serde_json::Value;

use super::api::{self, Refused};
use super::api_status::{self, Identity};
use super::{Context, api_services};
use crate::questions::ServiceRow;
use html::Html;
use listing::Listing;
use pace::Pace;
use service::Shown;
use wanted::Wanted;
use web::answer::{self, Answer};
use web::guard;
use web::router::{Router, Slow};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Nothing comes from elsewhere, nothing goes elsewhere, and no text of the page can become a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Endpoints of one service or packet, for each kind of client: more than anybody reads, and a hundred of them take a
/// millisecond.
const MOST_ENDPOINTS: usize = 400;

/// What the page is about.
#[derive(Clone)]
struct About {
    identity: Identity,
    /// Of the other pages.
    paths: Vec<&'static str>,
    pace: Rc<Pace>,
}

/// At `/`, and the style and the script beside it.
pub(super) fn page(router: Router, identity: Identity, context: &Context) -> Router {
    let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = u64::try_from(age.as_nanos()).unwrap_or_default();
    let pace = Rc::new(Pace::new(first, Instant::now()));
    let about = About { identity, paths: router.paths().collect(), pace };
    let context = context.clone();
    router
        .unlisted("/pointsman/page.css", |_| {
            hardened(answer::typed(StatusCode::OK, "text/css; charset=utf-8", STYLE))
        })
        .unlisted("/pointsman/page.js", |_| {
            hardened(answer::typed(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT))
        })
        .slow("/", move |asked| {
            let (about, context) = (about.clone(), context.clone());
            Box::pin(async move { hardened(respond(&asked.parts, &about, &context).await) }) as Slow
        })
}

fn hardened(answer: Answer) -> Answer {
    let headers = [
        ("content-security-policy", POLICY),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ];
    headers.into_iter().fold(answer, |answer, (name, value)| answer::with_header(answer, name, value))
}

async fn respond(parts: &Parts, about: &About, context: &Context) -> Answer {
    if let Some(refusal) = guard::refuse(parts, &about.identity.node) {
        return refusal;
    }
    let query = parts.uri.query().unwrap_or_default();
    let (tag, started) = (tag(about, context, query), Instant::now());
    if parts.headers.get(IF_NONE_MATCH).is_some_and(|known| *known == tag) {
        return answer::with_header(answer::text(StatusCode::NOT_MODIFIED, ""), "etag", &tag);
    }
    let gathered = gather(query, about, context).await;
    if is_costly(query) {
        about.pace.looked(started.elapsed(), Instant::now());
    }
    match gathered {
        Ok(content) => shown(&content, about, &tag),
        Err((code, problem)) => {
            answer::typed(code, "text/html; charset=utf-8", failure(about, &problem).into_text())
        }
    }
}

fn shown(content: &Content, about: &About, tag: &str) -> Answer {
    // What is missing may be there the next time.
    let tag = if content.is_whole { tag } else { "" };
    let html = render(content, about, tag).into_text();
    let mut answer = answer::typed(StatusCode::OK, "text/html; charset=utf-8", html);
    if let (true, Ok(tag)) = (content.is_whole, HeaderValue::from_str(tag)) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}

/// The same for as long as the same would be shown: who looks every few seconds at an idle agent costs nearly nothing.
fn tag(about: &About, context: &Context, query: &str) -> String {
    let hash = |what: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        what(&mut hasher);
        hasher.finish()
    };
    let generation = hash(&|hasher| api_status::generation(&about.identity, context).hash(hasher));
    // Traffic, pins and what the kernel holds change without a sync.
    let issue = match is_costly(query) {
        true => about.pace.issue(generation, Instant::now()),
        false => generation,
    };
    format!("\"{:016x}\"", hash(&|hasher| (query, issue).hash(hasher)))
}

/// Whether a service or a packet is looked at.
fn is_costly(query: &str) -> bool {
    query.contains("service=") || query.contains("to=")
}

/// Everything that is shown.
struct Content {
    wanted: Wanted,
    status: Value,
    /// Or why there is none.
    listing: Result<Listing, String>,
    /// The sync thread answered, or nothing is to be expected of it yet.
    is_whole: bool,
    shown: Option<Shown>,
    answer: Option<Result<Value, String>>,
}

async fn gather(query: &str, about: &About, context: &Context) -> Result<Content, Refused> {
    let wanted = Wanted::read(query)?;
    let sync_thread = &context.sync_thread;
    let status = api_status::status(&about.identity, context);
    if let Err((_, problem)) = api::has_written(context) {
        let answer = (!wanted.to.is_empty()).then(|| Err(problem.clone()));
        return Ok(Content { wanted, status, listing: Err(problem), is_whole: true, shown: None, answer });
    }
    // The health of an agent that writes rules for long is to be seen, too. If nobody answers, more questions would only wait.
    let listing = listing::gather(&wanted, sync_thread).await.map_err(|(_, problem)| problem);
    let (mut shown, mut answer) = (None, None);
    if !wanted.service.is_empty() {
        shown = Some(match &listing {
            Ok(_) => look(&wanted.service, context).await,
            Err(problem) => Shown { service: Err(problem.clone()), explained: Err(problem.clone()) },
        });
    }
    if !wanted.to.is_empty() {
        let is_service = wanted.to.contains('/');
        let (to, service) = if is_service { ("", &*wanted.to) } else { (&*wanted.to, "") };
        answer = Some(match &listing {
            Ok(_) => {
                let answer = api::explain(to, service, &wanted.from, MOST_ENDPOINTS, context).await;
                answer.map_err(|(_, problem)| problem)
            }
            Err(problem) => Err(problem.clone()),
        });
    }
    let is_whole = listing.is_ok() && shown.as_ref().is_none_or(|shown| shown.service.is_ok());
    Ok(Content { wanted, status, listing, is_whole, shown, answer })
}

async fn look(service: &str, context: &Context) -> Shown {
    let rows = context.sync_thread.service_rows(&[ServiceKey::from(service)]).await;
    let rates = context.metrics.traffic().and_then(|traffic| traffic.rates());
    let document = |row: &ServiceRow| api_services::document(row, rates.as_deref());
    let rows = rows.map(|rows| rows.first().map(document)).map_err(|why| why.to_string());
    let explained =
        api::explain("", service, "", MOST_ENDPOINTS, context).await.map_err(|(_, problem)| problem);
    Shown { service: rows, explained }
}

fn render(content: &Content, about: &About, tag: &str) -> Html {
    let Content { wanted, status, listing, shown, answer, is_whole: _ } = content;
    let mut html = Html::default();
    head(&mut html, about, tag);
    html.raw("<main><section id=\"status\" aria-label=\"Status\">").with(|html| status::status(html, status));
    html.raw("</section>");
    form_explain(&mut html, wanted);
    html.raw("<div id=\"answer\" aria-live=\"polite\">");
    answer.iter().for_each(|answer| explained::answer(&mut html, answer));
    html.raw("</div>");
    form_services(&mut html, wanted);
    html.raw("<div id=\"service\">");
    shown.iter().for_each(|shown| service::panel(&mut html, shown, wanted));
    html.raw("</div><div id=\"services\">");
    match listing {
        Ok(listing) => services::list(&mut html, listing, wanted),
        Err(problem) => drop(html.raw("<p class=\"bad\">").text(problem).raw("</p>")),
    }
    html.raw("</div></main>");
    foot(&mut html, about);
    html
}

fn head(html: &mut Html, about: &About, tag: &str) {
    let Identity { node, mode } = &about.identity;
    html.raw("<!DOCTYPE html>\n<html lang=\"en\" data-tag=\"")
        .text(tag)
        .raw("\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>").text(node);
    html.raw(" · kube-proxy</title><link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"pointsman/page.css\">");
    html.raw("<script src=\"pointsman/page.js\" defer></script></head><body><a class=\"skip\" href=\"#services\">Skip to the ");
    html.raw("services</a><header><h1><a href=\"?\">")
        .text(node)
        .raw("</a></h1><p>kube-proxy in mode <b>")
        .text(mode);
    html.raw("</b>, Pointsman ").text(version::FULL).raw("</p><p id=\"live\" role=\"status\"></p></header>");
}

fn form_explain(html: &mut Html, wanted: &Wanted) {
    html.raw("<h2 class=\"part\">Explain a packet</h2><form method=\"get\" action=\"?\" data-live=\"answer\" class=\"bar\">");
    html.raw("<label>To <input name=\"to\" required maxlength=\"300\" autocomplete=\"off\" autocapitalize=\"off\" ");
    html.raw("spellcheck=\"false\" placeholder=\"10.96.0.10:80, udp:…, node:30080 or default/web\" value=\"");
    html.text(&wanted.to)
        .raw("\"></label><label>From <input name=\"from\" maxlength=\"300\" autocomplete=\"off\" ");
    html.raw("spellcheck=\"false\" placeholder=\"any client\" value=\"").text(&wanted.from);
    html.raw("\"></label><button>Explain</button></form>");
}

fn form_services(html: &mut Html, wanted: &Wanted) {
    html.raw("<h2 class=\"part\">Services</h2><form method=\"get\" action=\"?\" data-live=\"services\" class=\"bar\">");
    html.raw("<label>Search <input type=\"search\" name=\"q\" maxlength=\"300\" autocomplete=\"off\" spellcheck=\"false\" ");
    html.raw("placeholder=\"part of a name, or an address\" value=\"").text(&wanted.search);
    html.raw("\"></label><label class=\"check\"><input type=\"checkbox\" name=\"problems\" value=\"true\"");
    html.raw(if wanted.only_problems { " checked" } else { "" }).raw("> Only problems</label>");
    html.raw("<button>Show</button></form>");
}

fn foot(html: &mut Html, about: &About) {
    html.raw("<footer><nav aria-label=\"Other pages\">");
    let ours = [api_status::STATUS, paths::SERVICES, paths::DIFF];
    for path in about.paths.iter().copied().chain(ours) {
        html.raw("<a href=\"").text(path.trim_start_matches('/')).raw("\">").text(path).raw("</a> ");
    }
    html.raw("</nav></footer></body></html>\n");
}

/// In place of the page.
fn failure(about: &About, problem: &str) -> Html {
    let mut html = Html::default();
    head(&mut html, about, "");
    html.raw("<main><p class=\"bad\">").text(problem).raw("</p></main>");
    foot(&mut html, about);
    html
}
