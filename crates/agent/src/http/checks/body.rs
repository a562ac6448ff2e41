//! The answer to a load balancer, as kube-proxy writes it.

use serde_json::Value;

use web::answer::{self, Answer};

/// `is_live`: the proxy itself keeps up.
pub(super) fn answer(service: &str, endpoints: usize, is_live: bool) -> Answer {
    let answer = answer::json(answer::status(endpoints > 0 && is_live), body(service, endpoints, is_live));
    answer::with_header(answer, "x-load-balancing-endpoint-weight", &endpoints.to_string())
}

fn body(service: &str, endpoints: usize, is_live: bool) -> String {
    let (namespace, name) = service.split_once('/').unwrap_or(("", service));
    let (namespace, name) = (Value::from(namespace), Value::from(name));
    format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": {namespace},\n\t\t\"name\": {name}\n\t}},\n\
         \t\"localEndpoints\": {endpoints},\n\t\"serviceProxyHealthy\": {is_live}\n}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_is_the_count_and_the_code_asks_for_both() {
        let wanted = "{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"web\"\n\t},\n\
                      \t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}";
        let given = answer("default/web", 2, true);
        assert_eq!(given.headers()["x-load-balancing-endpoint-weight"], "2");
        assert_eq!(given.headers()["content-type"], "application/json");
        assert_eq!(answer::read(given), (200, wanted.into()));
        assert_eq!(answer("default/web", 0, true).status(), 503);
        assert_eq!(answer("default/web", 2, false).status(), 503);
    }
}
