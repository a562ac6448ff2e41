//! `/debug/service`: what is planned and what is programmed for one service, from the sync thread.

use hyper::StatusCode;
use model::{Family, ServiceKey};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::questions::{Asker, FamilyStatus, PortRules, Rules, ServiceStatus};
use web::answer::{self, Answer};
use web::guard;
use web::router::{Router, Slow};

const PATH: &str = "/debug/service";

pub(super) fn service(router: Router, sync_thread: &Asker, node: &str) -> Router {
    let (sync_thread, node) = (sync_thread.clone(), node.to_owned());
    router.slow(PATH, move |asked| {
        if let Some(refusal) = guard::refuse_strangers(&asked.parts, &node) {
            return Box::pin(async { refusal }) as Slow;
        }
        let sync_thread = sync_thread.clone();
        Box::pin(async move { respond(asked.parts.uri.query(), &sync_thread).await }) as Slow
    })
}

async fn respond(query: Option<&str>, sync_thread: &Asker) -> Answer {
    let Some(name) = query.and_then(service_name) else {
        let usage = format!("which service? {PATH}?name=default/kubernetes\n");
        return answer::text(StatusCode::BAD_REQUEST, usage);
    };
    match sync_thread.service_status(ServiceKey::from(name.as_str())).await {
        Ok(Some(status)) => answer::json(StatusCode::OK, format!("{:#}\n", document(&name, &status))),
        Ok(None) => answer::text(StatusCode::NOT_FOUND, format!("there is no service {name}\n")),
        Err(why) => answer::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Namespace and name; clients may escape the slash.
fn service_name(query: &str) -> Option<String> {
    let name = query.split('&').find_map(|pair| pair.strip_prefix("name="))?;
    let name = percent_decode_str(name).decode_utf8().ok()?;
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.".contains(&c))
    };
    name.split_once('/')
        .is_some_and(|(namespace, name)| is_name(namespace) && is_name(name))
        .then(|| name.into_owned())
}

fn document(name: &str, ServiceStatus(families): &ServiceStatus) -> Value {
    let families = Family::BOTH.into_iter().zip(families);
    let families = families.map(|(family, status)| (family.to_string(), family_document(status)));
    json!({ "service": name, "families": families.collect::<serde_json::Map<_, _>>() })
}

fn family_document(status: &FamilyStatus) -> Value {
    let FamilyStatus { is_pending, known_endpoints, planned, programmed } = status;
    json!({
        "pending": is_pending,
        "knownEndpoints": known_endpoints,
        "planned": rules_document(planned, "too large to plan for this page"),
        "programmed": rules_document(programmed, "unknown; all rules are about to be rewritten"),
    })
}

fn rules_document(rules: &Rules, if_unknown: &str) -> Value {
    match rules {
        Rules::Unknown => json!(if_unknown),
        Rules::None => Value::Null,
        Rules::Ports(count, first) => {
            json!({ "portCount": count, "ports": first.iter().map(port_document).collect::<Vec<_>>() })
        }
    }
}

fn port_document(port: &PortRules) -> Value {
    json!({
        "name": port.name,
        "protocol": port.protocol.to_string(),
        "addressCount": port.address_count,
        "addresses": port.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "clusterEndpoints": port.cluster_endpoints,
        "localEndpoints": port.local_endpoints,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_namespace_and_name() {
        for (query, wanted) in [
            ("name=default/web", Some("default/web")),
            ("x=1&name=default%2Fweb", Some("default/web")),
            ("name=web", None),
            ("name=default/", None),
            ("name=a/b/c", None),
            ("name=a/%0a", None),
            ("names=default/web", None),
            ("", None),
        ] {
            assert_eq!(service_name(query).as_deref(), wanted, "{query}");
        }
    }
}
