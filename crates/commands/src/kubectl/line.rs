//! The command line of the plugin: what is for kubectl, what is for finding the agent, and what the agent is asked. Pure.

use crate::arguments::FLAGS;

/// Flags of kubectl that say how to reach the apiserver, and take a value.
const KUBECTL: [&str; 15] = [
    "kubeconfig",
    "context",
    "cluster",
    "user",
    "server",
    "token",
    "as",
    "as-group",
    "as-uid",
    "request-timeout",
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tls-server-name",
    "cache-dir",
];
/// And those that take none.
const KUBECTL_SWITCHES: [&str; 2] = ["insecure-skip-tls-verify", "match-server-version"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) command: String,
    pub(super) wants_help: bool,
    pub(super) kubectl: Vec<String>,
    pub(super) node: Option<String>,
    pub(super) from: Option<Sender>,
    pub(super) proxies: Proxies,
    /// What the agent is asked.
    pub(super) remote: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Passed on as it is.
    Address,
    Pod(Pod),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// How the pods of kube-proxy are found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proxies {
    pub(super) namespace: String,
    pub(super) selector: String,
}

impl Line {
    pub(super) fn read(words: Vec<String>) -> Result<Line, String> {
        let mut line = Line {
            command: String::new(),
            wants_help: false,
            kubectl: Vec::new(),
            node: None,
            from: None,
            proxies: Proxies {
                namespace: "kube-system".to_owned(),
                selector: "k8s-app=kube-proxy".to_owned(),
            },
            remote: Vec::new(),
        };
        let mut namespace: Option<String> = None;
        let mut from: Option<String> = None;
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if word == "-" || !word.starts_with('-') {
                match line.command.is_empty() {
                    true => line.command = word,
                    false => line.remote.push(word),
                }
                continue;
            }
            let (flag, given) = match word.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let name = long(flag.trim_start_matches('-'));
            if name == "help" {
                line.wants_help = true;
                line.remote.push("--help".to_owned());
                continue;
            }
            let has_value = match name {
                "node" | "from" | "namespace" | "proxy-namespace" | "selector" => true,
                name if KUBECTL.contains(&name) => true,
                name if KUBECTL_SWITCHES.contains(&name) => false,
                name => match FLAGS.iter().find(|(long, ..)| *long == name) {
                    Some((.., has_value)) => *has_value,
                    None => return Err(format!("unknown flag {flag}; see kubectl pointsman --help")),
                },
            };
            let value = match (given, has_value) {
                (Some(value), _) => Some(value),
                (None, true) => Some(words.next().ok_or_else(|| format!("{flag} needs a value"))?),
                (None, false) => None,
            };
            match (name, value) {
                ("node", value) => line.node = value,
                ("from", value) => from = value,
                ("namespace", value) => namespace = value,
                ("proxy-namespace", Some(value)) => line.proxies.namespace = value,
                ("selector", Some(value)) => line.proxies.selector = value,
                (name, value) => {
                    let list = match is_of_kubectl(name) {
                        true => &mut line.kubectl,
                        false => &mut line.remote,
                    };
                    list.push(value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}")));
                }
            }
        }
        if line.command == "check" {
            // It is asked of no agent: its own flag, wherever it stands.
            line.remote.extend(line.node.take().map(|node| format!("--node={node}")));
        }
        line.name_things(namespace, from)?;
        Ok(line)
    }

    /// Put namespaces to names.
    fn name_things(&mut self, namespace: Option<String>, from: Option<String>) -> Result<(), String> {
        let usual = namespace.clone().unwrap_or_else(|| "default".to_owned());
        match from {
            None => {}
            Some(text) => match text.strip_prefix("pod/").or_else(|| text.strip_prefix("pods/")) {
                Some(pod) => self.from = Some(Sender::Pod(Pod::read(pod, &usual)?)),
                None => {
                    self.remote.extend(["--from".to_owned(), text]);
                    self.from = Some(Sender::Address);
                }
            },
        }
        match self.command.as_str() {
            "explain" => self.name_service(&usual),
            "diff" => {
                if let [name] = self.remote.as_mut_slice()
                    && !name.contains('/')
                    && !name.starts_with('-')
                {
                    *name = format!("{usual}/{name}");
                }
            }
            "services" => self.remote.extend(namespace.map(|namespace| format!("--namespace={namespace}"))),
            // It says where the pod of --from is.
            _ => {}
        }
        Ok(())
    }

    /// `service NAME`, `service/NAME` and `svc/NAMESPACE/NAME` are `service NAMESPACE/NAME`.
    fn name_service(&mut self, namespace: &str) {
        let words = std::mem::take(&mut self.remote);
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let of_one_word =
                ["service/", "services/", "svc/"].iter().find_map(|start| word.strip_prefix(start));
            let name = match of_one_word {
                Some(name) => Some(name.to_owned()),
                None if ["service", "svc"].contains(&word.as_str()) => {
                    words.next_if(|next| !next.starts_with('-'))
                }
                None => {
                    self.remote.push(word);
                    continue;
                }
            };
            self.remote.push("service".to_owned());
            let with_namespace =
                |name: String| if name.contains('/') { name } else { format!("{namespace}/{name}") };
            self.remote.extend(name.map(with_namespace));
        }
    }

    /// Whether the packet asked about is IPv6.
    pub(super) fn is_ipv6(&self) -> Option<bool> {
        let target = self.remote.iter().find(|word| !word.starts_with('-'))?;
        // One colon follows a protocol, one comes before a port.
        match target.contains('[') || target.matches(':').count() > 2 || target.contains("::") {
            true => Some(true),
            false => target.contains('.').then_some(false),
        }
    }

    pub(super) fn take_remote_flag(&mut self, flag: &str) -> bool {
        let before = self.remote.len();
        self.remote.retain(|word| word != flag);
        self.remote.len() < before
    }
}

impl Pod {
    fn read(text: &str, usual: &str) -> Result<Pod, String> {
        let (namespace, name) = text.split_once('/').unwrap_or((usual, text));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(format!("--from: pod/{text} is not pod/NAME or pod/NAMESPACE/NAME"));
        }
        Ok(Pod { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

fn is_of_kubectl(name: &str) -> bool {
    KUBECTL.contains(&name) || KUBECTL_SWITCHES.contains(&name)
}

/// Of a short flag.
fn long(name: &str) -> &str {
    match name {
        "h" => "help",
        "s" => "server",
        "l" => "selector",
        name => FLAGS
            .iter()
            .find(|(_, short, _)| !short.is_empty() && *short == name)
            .map_or(name, |(long, ..)| *long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Line {
        Line::read(words.split(' ').map(str::to_owned).collect()).unwrap()
    }

    #[test]
    fn each_flag_goes_where_it_belongs() {
        let line = read("--context prod explain 10.96.0.10:80 --from pod/shop/cart-1 -o json --as=me -n x");
        assert_eq!(line.kubectl, ["--context=prod", "--as=me"]);
        assert_eq!(line.remote, ["10.96.0.10:80", "--output=json"]);
        assert_eq!(
            line.from,
            Some(Sender::Pod(Pod { namespace: "shop".to_owned(), name: "cart-1".to_owned() }))
        );
        assert_eq!((line.command.as_str(), line.is_ipv6()), ("explain", Some(false)));
        let line = read("services -n shop --problems --node n1 --proxy-namespace=net -l app=proxy");
        assert_eq!(line.remote, ["--problems", "--namespace=shop"]);
        assert_eq!((line.node.as_deref(), line.proxies.namespace.as_str()), (Some("n1"), "net"));
        assert_eq!(line.proxies.selector, "app=proxy");
        for words in ["check a.yaml --node n1", "--node n1 check a.yaml"] {
            assert_eq!(
                (read(words).node, read(words).remote.join(" ")),
                (None, "a.yaml --node=n1".to_owned())
            );
        }
        assert_eq!(
            read("explain [fd00::1]:80 --from 10.0.0.1").remote,
            ["[fd00::1]:80", "--from", "10.0.0.1"]
        );
    }

    #[test]
    fn services_and_pods_get_the_namespace_asked_for() {
        for (words, wanted) in [
            ("explain service web", "service default/web"),
            ("explain svc/web:http -n shop", "service shop/web:http"),
            ("explain service/shop/web", "service shop/web"),
            ("explain service shop/web:80", "service shop/web:80"),
            ("diff web -n shop", "shop/web"),
            ("diff shop/web", "shop/web"),
        ] {
            assert_eq!(read(words).remote.join(" "), wanted, "{words}");
        }
        let traced = read("trace fd00::1 --from pod/cart -n shop --for 5s");
        assert_eq!((traced.remote.join(" ").as_str(), traced.is_ipv6()), ("fd00::1 --for=5s", Some(true)));
        assert_eq!(read("trace udp:10.96.0.10").is_ipv6(), Some(false));
        let pod = |words: &str| read(words).from;
        let cart = |namespace: &str| {
            Some(Sender::Pod(Pod { namespace: namespace.to_owned(), name: "cart".to_owned() }))
        };
        assert_eq!(pod("explain 10.0.0.1:80 --from pod/cart"), cart("default"));
        assert_eq!(pod("explain 10.0.0.1:80 --from=pod/cart -n shop"), cart("shop"));
    }

    #[test]
    fn mistakes_are_named() {
        let problem = |words: &str| Line::read(words.split(' ').map(str::to_owned).collect()).unwrap_err();
        assert!(problem("explain --form x").contains("unknown flag --form"));
        assert!(problem("explain --from").contains("--from needs a value"));
        assert!(problem("explain 10.0.0.1:80 --from pod/a/b/c").contains("pod/NAMESPACE/NAME"));
    }
}
