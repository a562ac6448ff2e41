//! `/pointsman/v1/diff`: what the kernel holds against what was written, service by service. Nothing is changed.

use config::version;
use dataplane::{Difference, Inspection, Look};
use hyper::StatusCode;
use model::{Family, ServiceKey};
use serde_json::{Value, json};

use super::api::{Refused, bad, parameter, unanswered};
use super::looking;
use crate::questions::Asker;

/// Services that one answer compares, where they are compared one by one.
const LARGEST_PAGE: usize = 400;
/// Differences that an answer names.
const MOST_NAMED: usize = 1000;

pub(super) async fn diff(query: &str, sync_thread: &Asker) -> Result<Value, Refused> {
    let wanted = parameter(query, "service")?.filter(|name| !name.is_empty());
    if wanted.as_ref().is_some_and(|name| !name.contains('/')) {
        return Err(bad("service is NAMESPACE/NAME"));
    }
    let behind = parameter(query, "continue")?.unwrap_or_default();
    let mut total = Inspection::default();
    let mut services = 0;
    let mut next = None;
    if !at_once(&mut total, sync_thread).await? {
        let mut names = sync_thread.service_names(None).await.map_err(unanswered)?;
        names.retain(|name| **name > *behind && wanted.as_deref().is_none_or(|wanted| wanted == &**name));
        names.sort_unstable();
        next = names.get(LARGEST_PAGE - 1).filter(|_| names.len() > LARGEST_PAGE).map(ToString::to_string);
        names.truncate(LARGEST_PAGE);
        services = names.len();
        let mut rest = &names[..];
        while !rest.is_empty() {
            let done = some_of(&mut total, rest, sync_thread).await?;
            rest = rest.get(done.max(1)..).unwrap_or_default();
        }
    }
    let is_meant = |one: &&Difference| wanted.is_none() || one.service.as_deref() == wanted.as_deref();
    let differences: Vec<&Difference> = total.differences.iter().filter(is_meant).collect();
    Ok(json!({
        "version": version::FULL,
        "services": services,
        "compared": total.compared,
        "differenceCount": differences.len(),
        "differences": differences.iter().take(MOST_NAMED).map(|one| json!({
            "service": one.service.as_deref(),
            "place": one.place,
            "expected": one.expected,
            "found": one.found,
        })).collect::<Vec<_>>(),
        "continue": next,
    }))
}

/// Whether the mode compares everything at once.
async fn at_once(total: &mut Inspection, sync_thread: &Asker) -> Result<bool, Refused> {
    let mut is_done = false;
    for family in Family::BOTH {
        if let Some(look) = sync_thread.inspect_all(family).await.map_err(unanswered)? {
            is_done = true;
            total.add(finish(look).await?);
        }
    }
    Ok(is_done)
}

/// Compare the first of these services. Returns how many that were.
async fn some_of(
    total: &mut Inspection,
    services: &[ServiceKey],
    sync_thread: &Asker,
) -> Result<usize, Refused> {
    let (done, looks) = sync_thread.inspect_services(services).await.map_err(unanswered)?;
    for (service, look) in looks {
        let mut found = finish(look).await?;
        found.differences.iter_mut().for_each(|one| one.service = Some(service.clone()));
        total.add(found);
    }
    Ok(done)
}

async fn finish(look: Look) -> Result<Inspection, Refused> {
    looking::finish(look).await.map_err(|error| {
        (StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the kernel's rules: {error}"))
    })
}
