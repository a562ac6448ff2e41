//! `/pointsman/v1/diff`: what the kernel holds against what was written, service by service. Nothing is changed.

use config::version;
use dataplane::{Inspection, Look};
use hyper::StatusCode;
use model::{Family, ServiceKey};
use serde_json::{Value, json};

use super::api::{Refused, bad, parameter, unanswered};
use super::looking;
use crate::questions::{Asker, Rules};

/// Services that one answer compares, where they are compared one by one.
const LARGEST_PAGE: usize = 400;

pub(super) async fn diff(query: &str, sync_thread: &Asker) -> Result<Value, Refused> {
    let wanted = parameter(query, "service")?.filter(|name| !name.is_empty());
    let wanted = match wanted {
        Some(name) => Some(with_rules(&name, sync_thread).await?),
        None => None,
    };
    let behind = parameter(query, "continue")?.unwrap_or_default();
    let mut total = Inspection::default();
    let mut services = 0;
    let mut next = None;
    if !at_once(&mut total, wanted.as_ref(), sync_thread).await? {
        let mut names = match wanted {
            Some(service) => vec![service],
            None => sync_thread.service_names(None).await.map_err(unanswered)?,
        };
        names.retain(|name| **name > *behind);
        names.sort_unstable();
        next = names.get(LARGEST_PAGE - 1).filter(|_| names.len() > LARGEST_PAGE).map(ToString::to_string);
        names.truncate(LARGEST_PAGE);
        services = names.len();
        each(&mut total, &names, sync_thread).await?;
    }
    Ok(json!({
        "version": version::FULL,
        "services": services,
        "compared": total.compared,
        "partial": total.is_partial,
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
    sync_thread: &Asker,
) -> Result<bool, Refused> {
    let mut is_done = false;
    for family in Family::BOTH {
        if let Some(look) = sync_thread.inspect_all(family, wanted.cloned()).await.map_err(unanswered)? {
            is_done = true;
            total.add(finish(look).await?);
        }
    }
    Ok(is_done)
}

/// Compare these services one after the other, in pieces, so that none holds a sync up for long.
async fn each(
    total: &mut Inspection,
    mut services: &[ServiceKey],
    sync_thread: &Asker,
) -> Result<(), Refused> {
    let mut addresses = 0;
    while !services.is_empty() {
        let done = sync_thread.inspect_services(services, addresses).await.map_err(unanswered)?;
        for (service, look) in done.looks {
            let mut found = finish(look).await?;
            found.differences.iter_mut().for_each(|one| one.service = Some(service.clone()));
            total.add(found);
        }
        services = services.get(done.count..).unwrap_or_default();
        addresses = done.addresses;
    }
    Ok(())
}

async fn finish(look: Look) -> Result<Inspection, Refused> {
    looking::finish(look).await.map_err(|error| {
        (StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the kernel's rules: {error}"))
    })
}
