//! `/pointsman/v1/diff`: what the kernel holds against what was written, service by service. Nothing is changed.

use config::version;
use dataplane::{Inspection, Look};
use hyper::StatusCode;
use model::{Family, ServiceKey};
use serde_json::{Value, json};

use super::api::{Refused, bad, parameter, unanswered};
use super::looking;
use crate::questions::{self, Asker, Cursor, Rules};

/// Services that one answer compares, where they are compared one by one; and things after which it is enough, which takes a
/// fraction of a second.
const LARGEST_PAGE: usize = 400;
const ENOUGH_COMPARED: usize = 20_000;

/// Of the families that are `written`, by [`Family::index`].
pub(super) async fn diff(query: &str, written: [bool; 2], sync_thread: &Asker) -> Result<Value, Refused> {
    let wanted = parameter(query, "service")?.filter(|name| !name.is_empty());
    let wanted = match wanted {
        Some(name) => Some(with_rules(&name, sync_thread).await?),
        None => None,
    };
    let start = parameter(query, "continue")?.filter(|text| !text.is_empty());
    let start = start.map(|text| read_start(&text)).transpose()?;
    let mut total = Inspection::default();
    let mut services = 0;
    let mut next = None;
    if !at_once(&mut total, wanted.as_ref(), written, sync_thread).await? {
        let mut names = match wanted {
            Some(service) => vec![service],
            None => sync_thread.service_names(None).await.map_err(unanswered)?,
        };
        let (from, cursor) = start.unwrap_or_default();
        names.retain(|name| **name >= *from);
        names.sort_unstable();
        let cursor =
            if names.first().is_some_and(|first| **first == *from) { cursor } else { Cursor::default() };
        let page = names.get(..LARGEST_PAGE).unwrap_or(&names);
        let compared = each(&mut total, page, cursor, written, ENOUGH_COMPARED, sync_thread).await?;
        services = compared.0;
        next = names.get(services).map(|name| format!("{}:{name}", compared.1));
    }
    let unwritten = Family::BOTH.into_iter().filter(|family| !written[family.index()]);
    Ok(json!({
        "version": version::FULL,
        "services": services,
        "compared": total.compared,
        "partial": total.is_partial,
        "changing": total.unsettled,
        "unwritten": unwritten.map(|family| family.to_string()).collect::<Vec<_>>(),
        "differenceCount": total.difference_count,
        "differences": total.differences.iter().map(|one| json!({
            "service": one.service.as_deref(),
            "place": one.place,
            "expected": one.expected,
            "found": one.found,
        })).collect::<Vec<_>>(),
        "continue": next,
    }))
}

/// As `continue` has it: a service, and where in it.
fn read_start(text: &str) -> Result<(String, Cursor), Refused> {
    let start = text.split_once(':').and_then(|(cursor, name)| Some((name.to_owned(), cursor.parse().ok()?)));
    start.ok_or_else(|| bad("continue is not from an answer of this version; begin again"))
}

/// The service of this name, if there is anything of it to compare.
async fn with_rules(name: &str, sync_thread: &Asker) -> Result<ServiceKey, Refused> {
    if !name.contains('/') {
        return Err(bad("service is NAMESPACE/NAME"));
    }
    let service = ServiceKey::from(name);
    let status = sync_thread.service_status(service.clone()).await.map_err(unanswered)?;
    let status = status.ok_or_else(|| bad(format!("there is no service {name} here")))?;
    match status.0.iter().all(|family| family.programmed == Rules::None) {
        true => Err(bad(format!("service {name} has no rules here; see kube-proxy services"))),
        false => Ok(service),
    }
}

/// Whether the mode compares everything at once.
async fn at_once(
    total: &mut Inspection,
    wanted: Option<&ServiceKey>,
    written: [bool; 2],
    sync_thread: &Asker,
) -> Result<bool, Refused> {
    let mut is_done = false;
    for family in Family::BOTH.into_iter().filter(|family| written[family.index()]) {
        let ask = async || sync_thread.inspect_all(family, wanted.cloned()).await.map_err(unanswered);
        let Some(look) = ask().await? else { continue };
        is_done = true;
        let mut found = finish(look).await?;
        for _ in 1..looking::TRIES {
            // A further look may be refused because there were many: then what the last one found counts.
            if found.unsettled == 0 {
                break;
            }
            let Ok(Some(look)) = ask().await else { break };
            let Ok(again) = finish(look).await else { break };
            found = again;
        }
        total.add(found);
    }
    Ok(is_done)
}

/// Compare these services one after the other, in pieces, so that none holds a sync up for long. Ends when it is enough: how
/// many services were compared wholly, and where to go on in the next one.
async fn each(
    total: &mut Inspection,
    services: &[ServiceKey],
    mut cursor: Cursor,
    written: [bool; 2],
    enough: usize,
    sync_thread: &Asker,
) -> Result<(usize, Cursor), Refused> {
    let mut count = 0;
    while let Some(rest) = services.get(count..).filter(|rest| !rest.is_empty())
        && total.compared < enough
    {
        let wanted = questions::Wanted::new(rest, cursor, written);
        let done = sync_thread.inspect_services(wanted).await.map_err(unanswered)?;
        for (service, look) in done.looks {
            let mut found = finish(look).await?;
            found.differences.iter_mut().for_each(|one| one.service = Some(service.clone()));
            total.add(found);
        }
        count += done.count;
        cursor = done.next;
    }
    Ok((count, cursor))
}

async fn finish(look: Look) -> Result<Inspection, Refused> {
    looking::finish(look).await.map_err(|error| {
        (StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the kernel's rules: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_where_the_next_one_begins() {
        let (name, cursor) = read_start("1.20.3:default/a:b").unwrap();
        assert_eq!((name.as_str(), cursor.to_string().as_str()), ("default/a:b", "1.20.3"));
        for text in ["default/web", "1.2:default/web", "1.2.3", "a.b.c:default/web", "1.2.3.4:default/web"] {
            assert_eq!(read_start(text).unwrap_err().0, StatusCode::BAD_REQUEST, "{text}");
        }
    }
}
