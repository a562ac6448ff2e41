//! How people write what they ask about: `udp:10.96.0.10:53`, `node:30080`, `default/web:http`.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use model::{Protocol, ServiceKey};

/// How long a trace lasts if nothing else is asked for, and at most.
pub const USUAL_TRACE: Duration = Duration::from_secs(10);
const LONGEST_TRACE: Duration = Duration::from_secs(600);

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    At(Protocol, SocketAddr),
    /// At an address of this node that serves node ports.
    NodePort(Protocol, u16),
    /// All addresses of a service, or those of the port of this name or number.
    Service(ServiceKey, Option<String>),
}

/// `[tcp|udp|sctp:]ADDRESS:PORT`, `[tcp|udp|sctp:]node:PORT`.
pub fn read_packet(text: &str) -> Result<Target, String> {
    let (protocol, rest) = split_protocol(text);
    let protocol = protocol.unwrap_or(Protocol::Tcp);
    if let Some(port) = rest.strip_prefix("node:") {
        let number = port.parse().ok().filter(|port| *port > 0);
        return match number {
            Some(port) => Ok(Target::NodePort(protocol, port)),
            None => Err(format!("{text:?} is not a node port; {}", bad_port(port))),
        };
    }
    let wanted =
        "expected [tcp:|udp:|sctp:]ADDRESS:PORT, such as 10.96.0.10:80, udp:[fd00::a]:53 or node:30080";
    let hint = || match text.split_once('/') {
        Some((address, _)) if address.parse::<IpAddr>().is_ok() => {
            "write one address, not a range".to_owned()
        }
        Some((word, rest)) if rest.parse::<SocketAddr>().is_ok() => format!("write {word}:{rest}"),
        Some((kind, name)) if ["service", "svc", "services"].contains(&kind) => {
            format!("to explain a service, write: explain service NAMESPACE/{name}")
        }
        Some(_) if read_service(text).is_ok() => {
            format!("to explain a service, write: explain service {text}")
        }
        _ if rest == "node" => "the port is missing, as in node:30080".to_owned(),
        _ if rest.parse::<Ipv6Addr>().is_ok() => {
            let (ip, port) = rest.rsplit_once(':').filter(|at| is_v6_and_port(*at)).unwrap_or((rest, "80"));
            format!("an IPv6 address is written in brackets, such as [{ip}]:{port}")
        }
        _ if bare(rest).parse::<IpAddr>().is_ok() => format!("the port is missing, as in {text}:80"),
        _ => match mistake(rest) {
            Some(Mistake::Name(name)) => format!("{}, or: explain service NAMESPACE/NAME", named(name)),
            Some(Mistake::Other(hint)) => hint,
            None => wanted.to_owned(),
        },
    };
    match rest.parse::<SocketAddr>() {
        Ok(to) if to.port() > 0 => Ok(Target::At(protocol, to)),
        _ => Err(format!("{text:?} is not an address and port; {}", hint())),
    }
}

/// What is wrong with an address and port.
enum Mistake<'a> {
    Name(&'a str),
    Other(String),
}

fn mistake(text: &str) -> Option<Mistake<'_>> {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok();
    if let Some((address, port)) = text.rsplit_once(':')
        && bare(address).parse::<IpAddr>().is_ok()
    {
        return Some(Mistake::Other(bad_port(port)));
    }
    if let Some((word, rest)) = text.split_once(':')
        && (is_address(rest) || is_address(bare(rest)) || rest.starts_with("node:"))
    {
        return Some(Mistake::Other(format!("{word:?} is not a protocol; write tcp:, udp: or sctp:")));
    }
    if text.contains("//") {
        return Some(Mistake::Other("write an address and a port, not a URL".to_owned()));
    }
    let host = text.split_once(':').map_or(text, |(host, _)| host);
    let is_name = is_name(host) && host.bytes().any(|c| c.is_ascii_alphabetic());
    is_name.then_some(Mistake::Name(host))
}

/// Why a text is no address and port, to be added to that; empty if it is not clear.
pub(crate) fn why_no_socket(text: &str) -> String {
    if bare(text).parse::<IpAddr>().is_ok() {
        return format!(": {}", bad_port(""));
    }
    match mistake(text) {
        Some(Mistake::Name(host)) => format!(": {host:?} is a name, and names are not looked up"),
        Some(Mistake::Other(hint)) => format!(": {hint}"),
        None => String::new(),
    }
}

/// A service as commands take it: without a namespace it is in `default`, as for kubectl.
pub(crate) fn with_namespace(text: &str) -> Cow<'_, str> {
    match text.split_once(':').map_or(text, |(name, _)| name) {
        // Names of services have no dots, addresses have.
        name if is_name(name) && !name.contains('.') => format!("default/{text}").into(),
        _ => text.into(),
    }
}

fn named(host: &str) -> String {
    format!("{host:?} is a name, and names are not looked up: write an IP address (see kube-proxy services)")
}

/// `fd00::a:80` may be meant as an address and a port.
fn is_v6_and_port((ip, port): (&str, &str)) -> bool {
    ip.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn bad_port(port: &str) -> String {
    match port {
        "" => "the port is missing".to_owned(),
        _ => format!("the port must be a number from 1 to 65535, not {port:?}"),
    }
}

/// An address without the brackets of IPv6.
fn bare(text: &str) -> &str {
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text)
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.".contains(&c))
}

/// `NAMESPACE/NAME[:PORT]`.
pub fn read_service(text: &str) -> Result<Target, String> {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port.to_owned())),
        None => (text, None),
    };
    let is_service = name.split_once('/').is_some_and(|(space, name)| is_name(space) && is_name(name));
    match is_service && port.as_deref().is_none_or(is_name) {
        true => Ok(Target::Service(name.into(), port)),
        false if is_name(name) => {
            Err(format!("{text:?} is not a service; expected NAMESPACE/NAME[:PORT], such as default/{text}"))
        }
        false => Err(format!("{text:?} is not a service; expected NAMESPACE/NAME[:PORT]")),
    }
}

pub fn read_client(text: &str) -> Result<IpAddr, String> {
    let hint = || match text.parse::<SocketAddr>() {
        Ok(at) => format!("; write {}, without a port", at.ip()),
        Err(_) if text.starts_with("pod/") => {
            "; write the address of the pod, which only kubectl pointsman looks up".to_owned()
        }
        Err(_) => " such as 10.244.1.12".to_owned(),
    };
    text.parse().map_err(|_| format!("{text:?} is not an IP address{}", hint()))
}

/// `[tcp|udp|sctp:]ADDRESS[:PORT]`: without a protocol or a port, any.
pub fn read_traced(text: &str) -> Result<(Option<Protocol>, IpAddr, Option<u16>), String> {
    let (protocol, rest) = split_protocol(text);
    let wanted =
        "expected [tcp:|udp:|sctp:]ADDRESS[:PORT], such as 10.96.0.10, 10.96.0.10:80 or udp:[fd00::a]:53";
    match (bare(rest).parse::<IpAddr>(), rest.parse::<SocketAddr>()) {
        (Ok(ip), _) => Ok((protocol, ip, None)),
        (_, Ok(to)) if to.port() > 0 => Ok((protocol, to.ip(), Some(to.port()))),
        _ => {
            let hint = match mistake(rest) {
                Some(Mistake::Name(name)) => named(name),
                Some(Mistake::Other(hint)) => hint,
                None => wanted.to_owned(),
            };
            Err(format!("{text:?} is not an address; {hint}"))
        }
    }
}

/// How long a trace is to last.
pub fn read_lasting(text: &str) -> Result<Duration, String> {
    let lasting = config::parse_duration(text)?;
    match Duration::ZERO < lasting && lasting <= LONGEST_TRACE {
        true => Ok(lasting),
        false => Err(format!(
            "{text} must be above 0 and at most {} s; write a duration such as 30s or 5m",
            LONGEST_TRACE.as_secs()
        )),
    }
}

/// A protocol in front, in letters of any size: Kubernetes writes `TCP`.
fn split_protocol(text: &str) -> (Option<Protocol>, &str) {
    let protocol = |word: &str| {
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        all.into_iter().find(|one| one.to_string().eq_ignore_ascii_case(word))
    };
    let split = text.split_once(':').and_then(|(word, rest)| Some((protocol(word)?, rest)));
    split.map_or((None, text), |(protocol, rest)| (Some(protocol), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_people_write_them() {
        let at = |protocol, text: &str| Some(Target::At(protocol, text.parse().unwrap()));
        for (text, wanted) in [
            ("10.96.0.10:80", at(Protocol::Tcp, "10.96.0.10:80")),
            ("udp:10.96.0.10:53", at(Protocol::Udp, "10.96.0.10:53")),
            ("sctp:[fd00::a]:9", at(Protocol::Sctp, "[fd00::a]:9")),
            ("[fd00::a]:9", at(Protocol::Tcp, "[fd00::a]:9")),
            ("node:30080", Some(Target::NodePort(Protocol::Tcp, 30080))),
            ("udp:node:30053", Some(Target::NodePort(Protocol::Udp, 30053))),
            ("UDP:10.96.0.10:53", at(Protocol::Udp, "10.96.0.10:53")),
            ("10.96.0.10", None),
            ("10.96.0.10:0", None),
            ("10.96.0.10:70000", None),
            ("icmp:10.96.0.10:80", None),
            ("node:", None),
            ("", None),
        ] {
            assert_eq!(read_packet(text).ok(), wanted, "{text}");
        }
        for (text, hint) in [
            ("default/web:http", "write: explain service default/web:http"),
            ("fd00::a:80", "such as [fd00::a]:80"),
            ("fd00::10", "such as [fd00::10]:80"),
            ("udp:fd00::a", "such as [fd00::a]:80"),
            ("10.96.0:80", "expected [tcp:|udp:|sctp:]ADDRESS:PORT"),
            ("", "expected [tcp:|udp:|sctp:]ADDRESS:PORT"),
            ("10.96.0.10", "the port is missing, as in 10.96.0.10:80"),
            ("udp:[fd00::a]", "the port is missing, as in udp:[fd00::a]:80"),
            ("10.96.0.10:", "the port is missing"),
            ("10.96.0.10:70000", "the port must be a number from 1 to 65535, not \"70000\""),
            ("[fd00::a]:http", "from 1 to 65535, not \"http\""),
            ("node", "as in node:30080"),
            ("tcp://10.96.0.10:80", "not a URL"),
            ("http://10.96.0.10", "not a URL"),
            ("10.96.0.0/24:80", "not a range"),
            ("udp/10.96.0.10:53", "write udp:10.96.0.10:53"),
            ("svc/web", "write: explain service NAMESPACE/web"),
            ("node:0", "not \"0\""),
            ("icmp:10.96.0.10:80", "\"icmp\" is not a protocol; write tcp:, udp: or sctp:"),
            ("http:node:30080", "\"http\" is not a protocol"),
            ("web", "\"web\" is a name, and names are not looked up"),
            (
                "web.default.svc:80",
                "write an IP address (see kube-proxy services), or: explain service NAMESPACE/NAME",
            ),
        ] {
            let problem = read_packet(text).unwrap_err();
            assert!(problem.contains(hint), "{text}: {problem}");
        }
        for (text, hint) in [
            ("10.244.0.1:80", "write 10.244.0.1, without a port"),
            ("pod/default/web", "only kubectl pointsman looks up"),
            ("x", "is not an IP address such as 10.244.1.12"),
        ] {
            assert!(read_client(text).unwrap_err().contains(hint), "{text}");
        }
    }

    #[test]
    fn what_is_traced_may_have_a_port() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        for (text, wanted) in [
            ("10.96.0.10", Some((None, ip("10.96.0.10"), None))),
            ("10.96.0.10:80", Some((None, ip("10.96.0.10"), Some(80)))),
            ("udp:10.96.0.10", Some((Some(Protocol::Udp), ip("10.96.0.10"), None))),
            ("tcp:[fd00::a]:53", Some((Some(Protocol::Tcp), ip("fd00::a"), Some(53)))),
            ("fd00::a", Some((None, ip("fd00::a"), None))),
            ("sctp:[fd00::a]", Some((Some(Protocol::Sctp), ip("fd00::a"), None))),
            ("10.96.0.10:0", None),
            ("web:80", None),
            ("", None),
        ] {
            assert_eq!(read_traced(text).ok(), wanted, "{text}");
        }
        for (text, hint) in
            [("10.96.0.10:0", "not \"0\""), ("icmp:10.96.0.10", "is not a protocol"), ("web", "is a name")]
        {
            assert!(read_traced(text).unwrap_err().contains(hint), "{text}");
        }
        assert_eq!(read_lasting("1m30s"), Ok(Duration::from_secs(90)));
        assert!(["0s", "601s", "-1s", "10"].into_iter().all(|text| read_lasting(text).is_err()));
    }

    #[test]
    fn services_are_named_with_their_namespace() {
        assert_eq!(read_service("default/web"), Ok(Target::Service("default/web".into(), None)));
        let port = Some("http".to_owned());
        assert_eq!(read_service("default/web:http"), Ok(Target::Service("default/web".into(), port)));
        for (text, full) in [
            ("web", "default/web"),
            ("web:http", "default/web:http"),
            ("10.96.0.10:53", "10.96.0.10:53"),
            ("a/b", "a/b"),
            ("a/b:c", "a/b:c"),
            ("", ""),
        ] {
            assert_eq!(with_namespace(text), full);
        }
        assert!(read_service("web:http").unwrap_err().ends_with("such as default/web:http"));
        for text in ["web", "default/", "a/b/c", "a/b:", "a/<b>", "a/b:c d"] {
            assert!(read_service(text).is_err(), "{text}");
        }
    }
}
