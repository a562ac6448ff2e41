//! What objects of the apiserver say about pods. Pure.

use std::net::IpAddr;

use serde_json::Value;

use super::line::{Pod, Proxies};

/// Nodes that an error names.
const MOST_NAMED: usize = 5;
const PROGRAM: &str = "kube-proxy";

/// Where the command is run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) node: String,
    /// As the container calls it.
    pub(super) program: String,
    /// Those of its flags that say where it can be asked.
    pub(super) flags: Vec<String>,
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The address of a pod in the family of the packet, if that is known.
pub(super) fn address(pod: &Value, name: &Pod, is_ipv6: Option<bool>) -> Result<String, String> {
    let status = &pod["status"];
    let several = list(&status["podIPs"]).map(|one| text(&one["ip"]));
    let ips: Vec<IpAddr> = several.chain([text(&status["podIP"])]).filter_map(|ip| ip.parse().ok()).collect();
    let is_meant = |ip: &&IpAddr| is_ipv6.is_none_or(|wanted| ip.is_ipv6() == wanted);
    let Pod { namespace, name } = name;
    match (ips.iter().find(is_meant), ips.is_empty()) {
        (Some(ip), _) => Ok(ip.to_string()),
        (None, true) => Err(format!("pod {namespace}/{name} has no address yet")),
        (None, false) => Err(format!("pod {namespace}/{name} has no address of this IP family")),
    }
}

pub(super) fn node(pod: &Value, name: &Pod) -> Result<String, String> {
    match text(&pod["spec"]["nodeName"]) {
        "" => Err(format!("pod {}/{} is on no node yet", name.namespace, name.name)),
        node => Ok(node.to_owned()),
    }
}

/// The kube-proxy to ask, among the pods that were found.
pub(super) fn agent(pods: &Value, proxies: &Proxies, node: Option<&str>) -> Result<Agent, String> {
    let Proxies { namespace, selector } = proxies;
    let all: Vec<&Value> =
        list(&pods["items"]).filter(|pod| !pod["metadata"]["deletionTimestamp"].is_string()).collect();
    let running: Vec<&&Value> = all.iter().filter(|pod| pod["status"]["phase"] == "Running").collect();
    let at = node.map(|node| format!(" on node {node}")).unwrap_or_default();
    match (running.as_slice(), all.as_slice()) {
        ([], []) => Err(format!(
            "no pod {selector} in namespace {namespace}{at}; see --node, --proxy-namespace and --selector"
        )),
        ([], [pod, ..]) => {
            Err(format!("pod {namespace}/{} is not running{at}", text(&pod["metadata"]["name"])))
        }
        ([pod], _) => Ok(described(pod, namespace)),
        // A node has one, but for the moments of a roll-over.
        ([pod, ..], _) if node.is_some() => Ok(described(pod, namespace)),
        (several, _) => {
            let mut nodes: Vec<&str> = several.iter().map(|pod| text(&pod["spec"]["nodeName"])).collect();
            nodes.sort_unstable();
            let more = if nodes.len() > MOST_NAMED { ", ..." } else { "" };
            nodes.truncate(MOST_NAMED);
            Err(format!(
                "which node? Give --node or --from pod/NAMESPACE/NAME; there are {}{more}",
                nodes.join(", ")
            ))
        }
    }
}

fn described(pod: &Value, namespace: &str) -> Agent {
    let containers = || list(&pod["spec"]["containers"]);
    let container = containers().find(|one| one["name"] == PROGRAM).or_else(|| containers().next());
    let container = container.unwrap_or(&Value::Null);
    let words: Vec<&str> = list(&container["command"]).chain(list(&container["args"])).map(text).collect();
    let program = words.first().filter(|word| word.rsplit('/').next() == Some(PROGRAM));
    Agent {
        namespace: namespace.to_owned(),
        pod: text(&pod["metadata"]["name"]).to_owned(),
        container: text(&container["name"]).to_owned(),
        node: text(&pod["spec"]["nodeName"]).to_owned(),
        program: program.map_or(PROGRAM, |program| program).to_owned(),
        flags: address_flags(&words),
    }
}

fn address_flags(words: &[&str]) -> Vec<String> {
    const NAMES: [&str; 2] = ["--config", "--metrics-bind-address"];
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((name, _)) if NAMES.contains(&name) => found.push((*word).to_owned()),
            None if NAMES.contains(word) => {
                found.extend(words.get(at + 1).map(|value| format!("{word}={value}")));
            }
            _ => {}
        }
    }
    // Variables are the kubelet's to fill in.
    found.retain(|flag| !flag.contains("$("));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn proxy(name: &str, node: &str, phase: &str) -> Value {
        json!({
            "metadata": { "name": name },
            "spec": { "nodeName": node, "containers": [{ "name": "sidecar" }, {
                "name": "kube-proxy",
                "command": ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "-v", "2"],
                "args": ["--metrics-bind-address", "$(HOST_IP):10249"],
            }] },
            "status": { "phase": phase },
        })
    }

    fn found(items: &[Value], node: Option<&str>) -> Result<Agent, String> {
        let proxies = Proxies { namespace: "kube-system".to_owned(), selector: "a=b".to_owned() };
        agent(&json!({ "items": items }), &proxies, node)
    }

    #[test]
    fn the_agent_of_the_node_is_found() {
        let agent = found(&[proxy("kp-1", "n1", "Running")], None).unwrap();
        assert_eq!(
            (agent.pod.as_str(), agent.container.as_str(), agent.node.as_str()),
            ("kp-1", "kube-proxy", "n1")
        );
        assert_eq!(agent.program, "/usr/local/bin/kube-proxy");
        assert_eq!(agent.flags, ["--config=/var/lib/kube-proxy/config.conf"]);
        let mut leaving = proxy("kp-0", "n1", "Running");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(found(&[leaving, proxy("kp-1", "n1", "Running")], Some("n1")).unwrap().pod, "kp-1");
    }

    #[test]
    fn without_one_it_is_said_why() {
        assert_eq!(
            found(&[], Some("n9")).unwrap_err(),
            "no pod a=b in namespace kube-system on node n9; see --node, --proxy-namespace and --selector"
        );
        let two = [proxy("a", "n2", "Running"), proxy("b", "n1", "Running")];
        assert_eq!(
            found(&two, None).unwrap_err(),
            "which node? Give --node or --from pod/NAMESPACE/NAME; there are n1, n2"
        );
        assert!(found(&[proxy("a", "n1", "Pending")], None).unwrap_err().contains("is not running"));
    }

    #[test]
    fn a_pod_has_an_address_of_the_family_asked_for() {
        let name = Pod { namespace: "shop".to_owned(), name: "cart".to_owned() };
        let pod = json!({ "spec": {}, "status": { "podIP": "10.0.0.9", "podIPs": [{ "ip": "10.0.0.9" }, { "ip": "fd00::9" }] } });
        assert_eq!(address(&pod, &name, None).unwrap(), "10.0.0.9");
        assert_eq!(address(&pod, &name, Some(true)).unwrap(), "fd00::9");
        let alone = json!({ "status": { "podIP": "10.0.0.9" } });
        assert!(address(&alone, &name, Some(true)).unwrap_err().contains("of this IP family"));
        assert!(address(&json!({}), &name, None).unwrap_err().contains("has no address yet"));
        assert!(node(&pod, &name).unwrap_err().contains("is on no node yet"));
    }
}
