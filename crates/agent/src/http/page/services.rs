//! The list of services, as a table that needs no script.

use serde_json::Value;

use super::html::Html;
use super::listing::Listing;
use super::wanted::Wanted;

pub(super) fn list(html: &mut Html, listing: &Listing, wanted: &Wanted) {
    head(html, listing, wanted);
    if listing.rows.is_empty() {
        html.raw("<p class=\"empty\">");
        html.raw(match (wanted.only_problems, wanted.search.is_empty()) {
            (true, true) => "No service refuses clients.",
            (_, false) => "No service matches.",
            (false, true) => "There are no services yet.",
        });
        html.raw("</p>");
        return;
    }
    html.raw(
        "<table class=\"services\"><thead><tr><th scope=\"col\">Service</th><th scope=\"col\">Type</th>",
    );
    html.raw("<th scope=\"col\">Addresses</th><th scope=\"col\">Ports</th><th scope=\"col\">Endpoints</th>");
    html.raw("<th scope=\"col\">Remarks</th></tr></thead><tbody>");
    listing.rows.iter().for_each(|service| row(html, service, wanted));
    html.raw("</tbody></table>");
    pages(html, listing, wanted);
}

fn head(html: &mut Html, listing: &Listing, wanted: &Wanted) {
    html.raw("<p class=\"count\">");
    if !listing.rows.is_empty() {
        let last = listing.first + listing.rows.len();
        html.text(listing.first + 1).raw("–").text(last).raw(" of ").text(listing.matching);
        html.raw(if listing.matching == 1 { " service" } else { " services" });
        html.raw(if wanted.only_problems { " with problems" } else { "" });
    }
    if !wanted.only_problems && listing.problems > 0 {
        html.raw(", <a class=\"bad\" href=\"");
        html.query(&[("q", &wanted.search), ("problems", "true")]);
        html.raw("\">").text(listing.problems).raw(" with problems</a>");
    }
    html.raw("</p>");
}

fn pages(html: &mut Html, listing: &Listing, wanted: &Wanted) {
    if listing.pages < 2 {
        return;
    }
    let mut link = |page: usize, words: &'static str| {
        html.raw("<a href=\"")
            .query(&wanted.list(&page.to_string()))
            .raw("#services\">")
            .raw(words)
            .raw("</a> ");
    };
    if listing.page > 1 {
        link(listing.page - 1, "← Previous");
    }
    if listing.page < listing.pages {
        link(listing.page + 1, "Next →");
    }
    html.raw("<span class=\"count\">page ").text(listing.page).raw(" of ").text(listing.pages).raw("</span>");
}

fn row(html: &mut Html, service: &Value, wanted: &Wanted) {
    let problems = problems(service);
    html.raw(if problems.is_empty() { "<tr>" } else { "<tr class=\"problem\">" });
    html.raw("<th scope=\"row\"><a href=\"");
    let (page, name) = (wanted.page_text(), name(service));
    let [search, only, page] = wanted.list(&page);
    html.query(&[search, only, page, ("service", &name)]).raw("#service\">");
    html.raw("<span class=\"namespace\">").text(text(&service["namespace"])).raw("/</span><wbr>");
    html.text(text(&service["name"])).raw("</a></th><td data-label=\"Type\">").text(text(&service["type"]));
    html.raw("</td><td data-label=\"Addresses\" class=\"mono\">");
    lines(html, addresses(service));
    html.raw("</td><td data-label=\"Ports\" class=\"mono\">");
    let ports = list_of(&service["ports"]);
    lines(html, ports.iter().map(port_words).chain(more_ports(service)));
    html.raw("</td><td data-label=\"Endpoints\" class=\"mono\">");
    lines(html, ports.iter().map(endpoint_words));
    html.raw("</td><td data-label=\"Remarks\">");
    for problem in problems {
        html.raw("<span class=\"line bad\">").text(problem).raw("</span>");
    }
    for remark in remarks(service) {
        html.raw("<span class=\"line\">").text(remark).raw("</span>");
    }
    html.raw("</td></tr>");
}

fn lines(html: &mut Html, lines: impl IntoIterator<Item = String>) {
    for line in lines {
        html.raw("<span class=\"line\">").text(line).raw("</span>");
    }
}

pub(super) fn name(service: &Value) -> String {
    format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn list_of(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn addresses(service: &Value) -> Vec<String> {
    let kinds = [
        ("clusterIPs", "clusterIPCount", ""),
        ("externalIPs", "externalIPCount", "external "),
        ("loadBalancerIPs", "loadBalancerIPCount", "LB "),
    ];
    let of = |(key, count, kind)| {
        let shown = list_of(&service[key]).iter();
        let more = more(&service[count], shown.len()).map(|more| format!("and {more} more"));
        shown.map(move |ip| format!("{kind}{}", text(ip))).chain(more)
    };
    kinds.into_iter().flat_map(of).collect()
}

/// How many there are beside those that are shown.
fn more(count: &Value, shown: usize) -> Option<u64> {
    let count = count.as_u64()?;
    count.checked_sub(u64::try_from(shown).ok()?).filter(|more| *more > 0)
}

pub(super) fn more_ports(service: &Value) -> Option<String> {
    let more = more(&service["portCount"], list_of(&service["ports"]).len())?;
    Some(format!("and {more} more ports"))
}

/// `80:30080/tcp http`, as `kubectl get` has it.
pub(super) fn port_words(port: &Value) -> String {
    let node_port = port["nodePort"].as_u64().map(|number| format!(":{number}")).unwrap_or_default();
    let name = match text(&port["name"]) {
        "" => String::new(),
        name => format!(" {name}"),
    };
    format!("{}{node_port}/{}{name}", port["port"], text(&port["protocol"]))
}

/// Usable/known, of each family.
pub(super) fn endpoint_words(port: &Value) -> String {
    let families = port["endpoints"].as_object().into_iter().flatten();
    let counts = families.map(|(family, of)| {
        let count = format!("{}/{}", of["usable"], of["known"]);
        if family == "IPv4" { count } else { format!("{count} {family}") }
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// Of the service, and of its ports.
pub(super) fn problems(service: &Value) -> Vec<String> {
    let of_ports = list_of(&service["ports"]).iter().flat_map(|port| {
        let problems = list_of(&port["problems"]).iter();
        problems.map(move |problem| format!("port {}: {}", port["port"], text(problem)))
    });
    list_of(&service["problems"]).iter().map(|problem| text(problem).to_owned()).chain(of_ports).collect()
}

/// What is special about it.
pub(super) fn remarks(service: &Value) -> Vec<String> {
    let mut remarks = Vec::new();
    if service["pending"] == true {
        remarks.push("a change waits for its sync".to_owned());
    }
    for policy in ["internalTrafficPolicy", "externalTrafficPolicy"] {
        if service[policy] == "Local" {
            remarks.push(format!("{policy}: Local"));
        }
    }
    if let Some(seconds) = service["affinitySeconds"].as_u64() {
        remarks.push(format!("affinity {seconds} s"));
    }
    if let Some(count) = service["sourceRangeCount"].as_u64().filter(|count| *count > 0) {
        remarks.push(format!("source ranges: {count}"));
    }
    remarks
}
