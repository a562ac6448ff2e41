//! `kube-proxy services`: what is programmed, as `kubectl get` would show it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use config::{Node, yaml};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::paths::SERVICES;
use crate::table::Table;
use crate::{GOOD, NOT_GOOD, Outcome, client, json_text, print_document, reader};

pub(super) const USAGE: &str = "\
List what is programmed for services on this node.

Usage:
  kube-proxy services [NAME|NAMESPACE/NAME|ADDRESS] [flags]

Flags:
  -n, --namespace NAMESPACE        [default]
  -A, --all-namespaces
  --problems                       only services that refuse clients or lead them nowhere, and why
  -w, --watch                      list again whenever something changed
  --ends-with-input                with --watch: end when standard input is closed
  -o, --output table|wide|json|yaml [table]
  --agent ADDRESS:PORT             where the agent serves its metrics; else as --config or
  --config FILE                    --metrics-bind-address of the agent say [127.0.0.1:10249]
  --metrics-bind-address ADDRESS

Exit code: 0; 1 if there is no answer or no such service; with --problems 3 if there is a problem.
";

/// How often the agent is asked again for traffic that it has only begun to look at, and after how long.
const LOOKS_FOR_RATES: usize = 4;
const BETWEEN_READINGS: Duration = Duration::from_millis(1100);
/// How often a watched list is asked for.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Table,
    Wide,
    Json,
    Yaml,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    arguments.only(&["namespace", "all-namespaces", "problems", "watch", "output", "ends-with-input"])?;
    let form = match arguments.value("output") {
        None | Some("table") => Form::Table,
        Some("wide") => Form::Wide,
        Some("json") => Form::Json,
        Some("yaml") => Form::Yaml,
        Some(other) => return Err(format!("-o: {other:?} is not one of table, wide, json and yaml")),
    };
    let parameters = parameters(&arguments)?;
    let agent = arguments.agent()?;
    if arguments.has("watch") {
        reader::end_without(arguments.has("ends-with-input"))?;
    }
    let mut shown: Option<Vec<Value>> = None;
    loop {
        let services = match form {
            Form::Table => all(agent, &parameters)?.0,
            Form::Wide | Form::Json | Form::Yaml => with_rates(agent, &parameters)?,
        };
        let is_one_asked_for = !arguments.words.is_empty() && !arguments.has("watch");
        if is_one_asked_for && services.is_empty() && !is_there(agent, &parameters)? {
            return Err(not_found(&parameters));
        }
        if shown.as_ref() != Some(&services) {
            // Cells of tables are harmless already, and the others are for programs.
            print_document(&text(&services, form, &nothing(&parameters)))?;
        }
        if !arguments.has("watch") {
            let is_problem = arguments.has("problems") && !services.is_empty();
            return Ok(if is_problem { NOT_GOOD } else { GOOD });
        }
        shown = Some(services);
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

fn parameters(arguments: &Arguments) -> Result<Vec<(&'static str, String)>, String> {
    let mut parameters: Vec<(&'static str, String)> = Vec::new();
    let mut namespace = arguments.value("namespace").map(str::to_owned);
    match arguments.words.as_slice() {
        [] => {}
        [word] => match (word.parse::<IpAddr>(), word.split_once('/')) {
            (Ok(ip), _) => parameters.push(("address", ip.to_string())),
            (_, Some((given, ""))) => {
                return Err(format!("{word:?} is not a service; to list a namespace, write -n {given}"));
            }
            (_, Some((given, name))) if !name.contains(['/', ':']) => {
                namespace = Some(given.to_owned());
                parameters.push(("name", name.to_owned()));
            }
            (_, None) if !word.contains(':') => parameters.push(("name", word.clone())),
            _ => {
                return Err(format!(
                    "{word:?} is not a service; expected NAME, NAMESPACE/NAME or ADDRESS; see kube-proxy explain for an \
                     address with a port"
                ));
            }
        },
        [_, extra, ..] => return Err(format!("only one service is allowed; remove {extra:?}; see --help")),
    }
    let is_everywhere =
        arguments.has("all-namespaces") || parameters.iter().any(|(name, _)| *name == "address");
    match namespace {
        Some(namespace) => parameters.push(("namespace", namespace)),
        None if is_everywhere => {}
        None => parameters.push(("namespace", "default".to_owned())),
    }
    if arguments.has("problems") {
        parameters.push(("problems", "true".to_owned()));
    }
    Ok(parameters)
}

/// Of a list that is empty: whether that is only because nothing of it is a problem.
fn is_there(agent: SocketAddr, parameters: &[(&'static str, String)]) -> Result<bool, String> {
    let rest: Vec<_> = parameters.iter().filter(|(name, _)| *name != "problems").cloned().collect();
    Ok(rest.len() < parameters.len() && !all(agent, &rest)?.0.is_empty())
}

/// As `kubectl get` of a name that is not there.
fn not_found(parameters: &[(&'static str, String)]) -> String {
    let given = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
    match (given("address"), given("namespace"), given("name").unwrap_or_default()) {
        (Some(ip), ..) => format!(
            "no service has the address {ip}; for what happens to packets there, see kube-proxy explain"
        ),
        (None, Some(namespace), name) => format!(
            "there is no service {namespace}/{name} here, or it is not proxied; -n names another namespace, -A lists all"
        ),
        (None, None, name) => format!("there is no service {name} here, or it is not proxied; -A lists all"),
    }
}

/// Rates need two readings of the counters, the first of which may be due to this very question.
fn with_rates(agent: SocketAddr, parameters: &[(&'static str, String)]) -> Result<Vec<Value>, String> {
    for _ in 1..LOOKS_FOR_RATES {
        let (services, is_pending) = all(agent, parameters)?;
        if !is_pending {
            return Ok(services);
        }
        std::thread::sleep(BETWEEN_READINGS);
    }
    Ok(all(agent, parameters)?.0)
}

/// Page by page; and whether rates are still to come.
fn all(agent: SocketAddr, parameters: &[(&'static str, String)]) -> Result<(Vec<Value>, bool), String> {
    let mut services = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut asked: Vec<(&str, &str)> =
            parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
        asked.extend(next.as_deref().map(|next| ("continue", next)));
        let mut page = client::ask(agent, SERVICES, &asked)?;
        services.extend(page["services"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["continue"].as_str() {
            Some(last) => next = Some(last.to_owned()),
            None => return Ok((services, page["traffic"] == "pending")),
        }
    }
}

/// What an empty list says.
fn nothing(parameters: &[(&'static str, String)]) -> String {
    let given = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
    match (given("problems"), given("namespace")) {
        (Some(_), _) => "No service refuses clients.\n".to_owned(),
        (None, Some(namespace)) => {
            format!("No services found in namespace {namespace}; -A lists those of all namespaces.\n")
        }
        (None, None) => "No services found.\n".to_owned(),
    }
}

fn text(services: &[Value], form: Form, nothing: &str) -> String {
    match form {
        Form::Json => json_text(&json!({ "services": services })),
        Form::Yaml => yaml::text(&node(&json!({ "services": services }))),
        Form::Table | Form::Wide if services.is_empty() => nothing.to_owned(),
        Form::Table | Form::Wide => table(services, form == Form::Wide).to_string(),
    }
}

fn table(services: &[Value], is_wide: bool) -> Table {
    let mut head =
        vec!["NAMESPACE", "NAME", "PORT", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "ENDPOINTS", "NOTES"];
    let has_rates = is_wide && services.iter().any(|service| service["ports"][0]["rates"].is_object());
    if is_wide {
        head.insert(6, "POLICY");
    }
    if has_rates {
        head.splice(8..8, ["CONN/S", "PACKETS/S", "BYTES/S"]);
    }
    let (mut table, width) = (Table::new(&head), head.len());
    for service in services {
        let none = Vec::new();
        for port in service["ports"].as_array().unwrap_or(&none) {
            let mut row = vec![
                word(&service["namespace"]),
                word(&service["name"]),
                port_words(port),
                word(&service["type"]),
                list(service, &["clusterIP"]),
                list(service, &["loadBalancerIP", "externalIP"]),
                endpoints(port),
                notes(service, port),
            ];
            if is_wide {
                let (inside, outside) =
                    (&service["internalTrafficPolicy"], &service["externalTrafficPolicy"]);
                row.insert(6, format!("{}/{}", word(inside), word(outside)));
            }
            if has_rates {
                row.splice(8..8, rates(port));
            }
            table.row(row);
        }
        let shown = service["ports"].as_array().map_or(0, Vec::len);
        if let Some(more) = more(&service["portCount"], shown) {
            let named = [&service["namespace"], &service["name"]].map(word);
            let mut row: Vec<String> = named.into_iter().chain([format!("and {more} more ports")]).collect();
            row.resize(width, String::new());
            table.row(row);
        }
    }
    table
}

/// How many there are beside those that are shown.
fn more(count: &Value, shown: usize) -> Option<u64> {
    count.as_u64()?.checked_sub(u64::try_from(shown).ok()?).filter(|more| *more > 0)
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `http:80:30080/TCP`
fn port_words(port: &Value) -> String {
    let name = port["name"]
        .as_str()
        .filter(|name| !name.is_empty())
        .map(|name| format!("{name}:"))
        .unwrap_or_default();
    let node_port = port["nodePort"].as_u64().map(|number| format!(":{number}")).unwrap_or_default();
    format!("{name}{}{node_port}/{}", port["port"], word(&port["protocol"]).to_uppercase())
}

/// Addresses of these kinds.
fn list(service: &Value, kinds: &[&str]) -> String {
    let mut words = Vec::new();
    for kind in kinds {
        let shown = service[format!("{kind}s")].as_array().map(Vec::as_slice).unwrap_or_default();
        words.extend(shown.iter().map(word));
        let more = more(&service[format!("{kind}Count")], shown.len());
        words.extend(more.map(|more| format!("and {more} more")));
    }
    if words.is_empty() { "<none>".to_owned() } else { words.join(",") }
}

/// Usable and known, of each family that has rules.
fn endpoints(port: &Value) -> String {
    let families = port["endpoints"].as_object();
    let words: Vec<String> = families
        .into_iter()
        .flatten()
        .map(|(_, one)| format!("{}/{}", one["usable"], one["known"]))
        .collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

/// In both directions.
fn rates(port: &Value) -> [String; 3] {
    let sum = |names: &[&str]| -> String {
        let sum: f64 = names.iter().filter_map(|name| port["rates"][*name].as_f64()).sum();
        if sum > 0.0 && sum < 10.0 { format!("{sum:.1}") } else { format!("{sum:.0}") }
    };
    [sum(&["connections"]), sum(&["requestPackets", "replyPackets"]), sum(&["requestBytes", "replyBytes"])]
}

fn notes(service: &Value, port: &Value) -> String {
    let problems = [&port["problems"], &service["problems"]];
    let mut notes: Vec<String> =
        problems.iter().flat_map(|list| list.as_array()).flatten().map(word).collect();
    if service["pending"] == true {
        notes.push("a sync is pending".to_owned());
    }
    if let Some(seconds) = service["affinitySeconds"].as_u64() {
        notes.push(format!("affinity {seconds} s"));
    }
    if let Some(count @ 1..) = service["sourceRangeCount"].as_u64() {
        notes.push(format!("{count} source range{}", if count == 1 { "" } else { "s" }));
    }
    notes.join("; ")
}

fn node(value: &Value) -> Node {
    match value {
        Value::Null => Node::Null,
        Value::Bool(value) => Node::Bool(*value),
        Value::Number(number) => Node::Number(number.to_string()),
        Value::String(text) => Node::text(text.as_str()),
        Value::Array(items) => Node::List(items.iter().map(node).collect()),
        Value::Object(fields) => {
            Node::Map(fields.iter().map(|(name, value)| (name.clone(), node(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_a_port() {
        let services = [json!({
            "namespace": "default", "name": "web", "type": "NodePort", "clusterIPs": ["10.96.0.10", "fd00::a"],
            "externalIPs": [], "loadBalancerIPs": [], "affinitySeconds": 10800, "sourceRangeCount": 0,
            "problems": [], "pending": false,
            "ports": [
                { "name": "http", "protocol": "tcp", "port": 80, "nodePort": 30080, "problems": [],
                  "endpoints": { "IPv4": { "usable": 2, "known": 3 }, "IPv6": { "usable": 0, "known": 0 } } },
                { "name": "dns", "protocol": "udp", "port": 53, "nodePort": null, "endpoints": {},
                  "problems": ["rejects all clients: no endpoints; check the selector and the pods"] },
            ],
        })];
        let wanted = "\
NAMESPACE  NAME  PORT               TYPE      CLUSTER-IP          EXTERNAL-IP  ENDPOINTS  NOTES
default    web   http:80:30080/TCP  NodePort  10.96.0.10,fd00::a  <none>       2/3 0/0    affinity 10800 s
default    web   dns:53/UDP         NodePort  10.96.0.10,fd00::a  <none>       -          rejects all clients: no \
endpoints; check the selector and the pods; affinity 10800 s
";
        assert_eq!(text(&services, Form::Table, ""), wanted);
        assert_eq!(text(&[], Form::Table, &nothing(&[])), "No services found.\n");
        for (count, noted) in [(1, "; 1 source range\n"), (2, "; 2 source ranges\n")] {
            let mut limited = services.clone();
            limited[0]["sourceRangeCount"] = json!(count);
            assert!(text(&limited, Form::Table, "").ends_with(noted));
        }
        let mut long = services.clone();
        long[0]["portCount"] = json!(60);
        long[0]["externalIPs"] = json!(["192.0.2.1"]);
        long[0]["externalIPCount"] = json!(12);
        let long = text(&long, Form::Table, "");
        let lines: Vec<&str> = long.lines().collect();
        assert!(lines[1].contains(" 192.0.2.1,and 11 more "), "{long}");
        assert_eq!(lines[3].trim_end(), "default    web   and 58 more ports");
        let in_namespace = [("namespace", "default".to_owned())];
        assert!(
            text(&[], Form::Wide, &nothing(&in_namespace))
                .starts_with("No services found in namespace default;")
        );
        let problems = [("problems", "true".to_owned())];
        assert_eq!(text(&[], Form::Wide, &nothing(&problems)), "No service refuses clients.\n");
        let mut counted = services.clone();
        counted[0]["ports"][0]["rates"] = json!({ "connections": 0.25, "requestPackets": 100.0, "replyPackets": 50.4, "requestBytes": 0.0 });
        let wide = text(&counted, Form::Wide, "");
        let columns = |line: usize| wide.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(columns(0)[7..], ["ENDPOINTS", "CONN/S", "PACKETS/S", "BYTES/S", "NOTES"]);
        assert_eq!(columns(1)[7..12], ["2/3", "0/0", "0.2", "150", "0"]);
        assert!(
            text(&services, Form::Yaml, "").starts_with("services:\n- "),
            "{}",
            text(&services, Form::Yaml, "")
        );
    }
}
