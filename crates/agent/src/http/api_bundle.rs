//! What `kube-proxy bundle` collects beside pages that are there anyway: the rules in the kernel, facts about the node and
//! the last lines of the log. Everything is read by another thread, one after the other, and bounded.

use commands::paths::{FACTS, LOG, RULESET, TRUNCATED_HEADER};
use config::{Options, version};
use dataplane::Holdings;
use dataplane::ruleset::{self, Unread};
use hyper::StatusCode;
use model::Family;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::api::{Refused, bad, headed, kept, parameter, pretty, respond};
use super::api_status::Identity;
use super::{Context, facts, looking};
use crate::logging::{self, start};
use web::answer::{self, Answer};
use web::router::Router;

/// Chains, rules and sets of a table: a thousand or so, whatever the number of services.
const MOST_OBJECTS: usize = 20_000;
/// Text of the elements of one set, of saved tables.
const MOST_TEXT: usize = 8 << 20;

/// Answers may be large: one is read at a time.
static READINGS: Semaphore = Semaphore::const_new(1);

/// As nf_tables calls them.
const FAMILIES: [(&str, Family); 2] = [("ip", Family::V4), ("ip6", Family::V6)];

pub(super) fn parts(router: Router, identity: &Identity, options: &Options, context: &Context) -> Router {
    let holdings = dataplane::mode(options.mode.word()).map(|mode| mode.holdings()).unwrap_or_default();
    let mode = options.mode.word();
    let about = facts::About::new(options, context);
    let router =
        kept(router, RULESET, identity, move |query| async move { ruleset(&query, mode, holdings).await });
    let router = kept(router, FACTS, identity, move |_| {
        let about = about.clone();
        async move { respond(blocking(move || Ok(about.read())).await.map(|facts| pretty(&facts))) }
    });
    kept(router, LOG, identity, async |_| headed(answer::text(StatusCode::OK, logging::recent())))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Unread> + Send + 'static,
) -> Result<T, Refused> {
    let done = looking::in_turn(&READINGS, work).await.unwrap_or_else(|error| Err(error.into()));
    done.map_err(|error| {
        (StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the kernel's rules: {error}"))
    })
}

async fn ruleset(query: &str, mode: &'static str, holdings: Holdings) -> Answer {
    match asked_elements(query, holdings) {
        Err(refused) => respond(Err(refused)),
        Ok(None) => respond(blocking(move || Ok(pretty(&whole(mode, holdings)))).await),
        Ok(Some((family, table, set))) => {
            let name = set.clone();
            match blocking(move || ruleset::elements(family, table, &set, MOST_TEXT)).await {
                Ok(Some((text, is_truncated))) => {
                    let answer = headed(answer::json(StatusCode::OK, text));
                    if is_truncated { answer::with_header(answer, TRUNCATED_HEADER, "true") } else { answer }
                }
                Ok(None) => respond(Err((StatusCode::NOT_FOUND, format!("there is no set {name:?}")))),
                Err(refused) => respond(Err(refused)),
            }
        }
    }
}

/// The set whose elements are asked for.
fn asked_elements(
    query: &str,
    holdings: Holdings,
) -> Result<Option<(Family, &'static str, String)>, Refused> {
    let Some(set) = parameter(query, "set")? else { return Ok(None) };
    let table = holdings.nft_table.ok_or_else(|| bad("this mode has no table of nf_tables"))?;
    let family = parameter(query, "family")?.unwrap_or_default();
    let family = FAMILIES.into_iter().find(|(name, _)| *name == family);
    let (_, family) = family.ok_or_else(|| bad("family is ip or ip6"))?;
    Ok(Some((family, table, set)))
}

/// What the mode has in the kernel. What cannot be read is a problem beside the rest.
fn whole(mode: &str, holdings: Holdings) -> Value {
    let mut document =
        Map::from_iter([("version".to_owned(), version::FULL.into()), ("mode".to_owned(), mode.into())]);
    let mut problems: Vec<String> = Vec::new();
    if let Some(table) = holdings.nft_table {
        let metainfo = json!({ "metainfo": { "version": version::FULL, "json_schema_version": 1 } });
        let mut listed = vec![metainfo];
        for (name, family) in FAMILIES {
            match ruleset::objects(family, table, MOST_OBJECTS) {
                Ok(objects) => {
                    listed.extend(objects.listed);
                    if !objects.is_whole {
                        problems.push(format!("table {name} {table} changed while it was read"));
                    }
                    if objects.is_truncated {
                        problems.push(format!("table {name} {table} has more than {MOST_OBJECTS} objects"));
                    }
                }
                Err(error) => problems.push(format!("table {name} {table}: {error}")),
            }
        }
        document.insert("nftables".to_owned(), listed.into());
    }
    if let Some((name, list)) = holdings.listed {
        let (listed, amiss) = list();
        problems.extend(amiss);
        document.insert(name.to_owned(), listed.into());
    }
    if let Some(save) = holdings.save {
        let mut saved = Map::new();
        for (name, outcome) in save() {
            match outcome {
                Ok(mut text) => {
                    if text.len() > MOST_TEXT {
                        text.truncate(start(&text, MOST_TEXT).len());
                        problems.push(format!("{name}: more than {MOST_TEXT} bytes; the rest is left out"));
                    }
                    saved.insert(name, text.into());
                }
                Err(error) => problems.push(format!("{name}: {error}")),
            }
        }
        document.insert("saved".to_owned(), saved.into());
    }
    document.insert("problems".to_owned(), problems.into());
    document.into()
}
