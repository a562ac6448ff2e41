//! Who may look: the page and what is under `/pointsman/v1/` tell a lot and change nothing, and a browser must not be made to
//! hand them to a stranger.
//!
//! A web site may let its name point to 127.0.0.1 once its script runs in an operator's browser (DNS rebinding); to the
//! browser the agent then is that site. What gives it away is the name in `Host`. Public names have a dot: addresses,
//! `localhost`, names without a dot and the name of the node are answered, others not. Metrics and the pages that upstream
//! has are left as they are: scrapers use all kinds of names.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{ALLOW, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use crate::answer::{self, Answer};

/// The refusal of a request that is not answered here.
pub fn refuse(parts: &Parts, node: &str) -> Option<Answer> {
    refuse_other_methods(parts).or_else(|| refuse_strangers(parts, node))
}

fn refuse_other_methods(parts: &Parts) -> Option<Answer> {
    if ![Method::GET, Method::HEAD].contains(&parts.method) {
        let mut answer = answer::text(StatusCode::METHOD_NOT_ALLOWED, "read-only: use GET\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(answer);
    }
    None
}

/// Notes on a request that it comes from this node.
#[derive(Clone, Copy, Debug)]
pub struct FromThisNode;

/// Whether a client of this node asks. Where the address is one of the network, every pod can.
pub fn is_from_this_node(parts: &Parts) -> bool {
    parts.extensions.get::<FromThisNode>().is_some()
}

/// The same for pages that take more than `GET`.
pub fn refuse_strangers(parts: &Parts, node: &str) -> Option<Answer> {
    let host = parts.headers.get(HOST).map(|value| value.to_str().unwrap_or("?"));
    let is_ours = host.is_none_or(|host| is_local_name(name(host), node));
    if !is_ours {
        let hint = "this is only answered under an IP address, localhost, a name without a dot or the name of the node\n";
        return Some(answer::text(StatusCode::MISDIRECTED_REQUEST, hint));
    }
    refuse_other_sites(parts)
}

/// The same under any name, for what takes long.
pub fn refuse_other_sites(parts: &Parts) -> Option<Answer> {
    is_of_another_site(parts).then(|| {
        answer::text(
            StatusCode::FORBIDDEN,
            "requests from pages of other sites are refused; open this address directly\n",
        )
    })
}

/// A page from elsewhere has the browser ask: it cannot read the answer, but it can keep the agent busy. A link to the page
/// is no harm; a frame with it, which the other page may make by the dozen, is no link. Browsers say where a request comes
/// from only to addresses that they trust, such as 127.0.0.1, or if a script wants to read the answer.
fn is_of_another_site(parts: &Parts) -> bool {
    let word = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_opened = word("sec-fetch-mode") == Some("navigate") && word("sec-fetch-dest") == Some("document");
    let is_link = parts.uri.path() == "/" && is_opened;
    let is_other = word("sec-fetch-site").is_some_and(|site| !["same-origin", "none"].contains(&site));
    let origin = word("origin").map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    is_other && !is_link || origin.is_some_and(|origin| word("host").is_some_and(|host| host != origin))
}

/// Without the port.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn is_local_name(name: &str, node: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_address = name.parse::<IpAddr>().is_ok() || format!("{name}:1").parse::<SocketAddr>().is_ok();
    let is_localhost = name.to_ascii_lowercase().ends_with(".localhost");
    is_address || is_localhost || !name.contains('.') || name.eq_ignore_ascii_case(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn code(method: &str, host: Option<&str>) -> Option<u16> {
        let mut request = Request::builder().method(method).uri("/");
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        refuse(&parts, "Node-1.example.org").map(|answer| answer.status().as_u16())
    }

    #[test]
    fn public_names_are_refused_and_addresses_are_not() {
        let good = [
            "127.0.0.1:10249",
            "[::1]:10249",
            "[fd00::1]",
            "10.0.0.1",
            "localhost:10249",
            "localhost",
            "node",
        ];
        for host in good.into_iter().chain(["node-1.example.org:10249", "a.localhost:1", "localhost.:1"]) {
            assert_eq!(code("GET", Some(host)), None, "{host}");
        }
        for host in ["evil.example:10249", "evil.example", "localhost.evil.example", "1.2.3.4.evil.example:1"]
        {
            assert_eq!(code("GET", Some(host)), Some(421), "{host}");
        }
        assert_eq!(code("HEAD", None), None, "no browser");
    }

    #[test]
    fn other_sites_only_link_to_the_page() {
        let code = |path: &str, headers: &[(&str, &str)]| {
            let request = Request::builder().uri(path).header(HOST, "127.0.0.1:10249");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let parts = request.body(()).unwrap().into_parts().0;
            refuse(&parts, "node").map(|answer| answer.status().as_u16())
        };
        let trace = "/pointsman/v1/trace?to=10.96.0.1";
        for site in ["cross-site", "same-site"] {
            assert_eq!(code(trace, &[("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")]), Some(403));
            assert_eq!(code(trace, &[("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]), Some(403));
            let at = |mode, dest| {
                let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
                code("/?q=web", &headers)
            };
            assert_eq!(at("no-cors", "image"), Some(403));
            assert_eq!(at("navigate", "document"), None);
            for frame in ["iframe", "frame", "object", "embed", "empty"] {
                assert_eq!(at("navigate", frame), Some(403), "{frame}");
            }
        }
        for site in ["same-origin", "none"] {
            assert_eq!(code(trace, &[("sec-fetch-site", site)]), None);
        }
        assert_eq!(code(trace, &[("origin", "http://127.0.0.1:10249")]), None);
        for origin in ["http://127.0.0.1:80", "https://evil.example", "null"] {
            assert_eq!(code(trace, &[("origin", origin)]), Some(403), "{origin}");
        }
    }

    #[test]
    fn nothing_but_reading_is_answered() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            assert_eq!(code(method, Some("localhost")), Some(405), "{method}");
        }
    }
}
