//! How people write what they ask about: `udp:10.96.0.10:53`, `node:30080`, `default/web:http`.

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
    let wanted = "[tcp:|udp:|sctp:]ADDRESS:PORT, such as 10.96.0.10:80, udp:[fd00::a]:53 or node:30080";
    if let Some(port) = rest.strip_prefix("node:") {
        let port = port.parse().ok().filter(|port| *port > 0);
        let port: u16 = port.ok_or_else(|| format!("{text:?} has no port; expected {wanted}"))?;
        return Ok(Target::NodePort(protocol, port));
    }
    match rest.parse::<SocketAddr>() {
        Ok(to) if to.port() > 0 => Ok(Target::At(protocol, to)),
        _ if read_service(text).is_ok() => Err(format!(
            "{text:?} is not an address and port; to explain a service, write: explain service {text}"
        )),
        _ if rest.parse::<Ipv6Addr>().is_ok() => Err(format!(
            "{text:?} is not an address and port; an IPv6 address is written in brackets, such as [{rest}]:80"
        )),
        _ => Err(format!("{text:?} is not an address and port; expected {wanted}")),
    }
}

/// `NAMESPACE/NAME[:PORT]`.
pub fn read_service(text: &str) -> Result<Target, String> {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port.to_owned())),
        None => (text, None),
    };
    let is_name = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"-.".contains(&c))
    };
    let is_service = name.split_once('/').is_some_and(|(space, name)| is_name(space) && is_name(name));
    match is_service && port.as_deref().is_none_or(is_name) {
        true => Ok(Target::Service(name.into(), port)),
        false => Err(format!("{text:?} is not a service; expected NAMESPACE/NAME[:PORT]")),
    }
}

pub fn read_client(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an IP address"))
}

/// `[tcp|udp|sctp:]ADDRESS[:PORT]`: without a protocol or a port, any.
pub fn read_traced(text: &str) -> Result<(Option<Protocol>, IpAddr, Option<u16>), String> {
    let (protocol, rest) = split_protocol(text);
    let wanted = "[tcp:|udp:|sctp:]ADDRESS[:PORT], such as 10.96.0.10, 10.96.0.10:80 or udp:[fd00::a]:53";
    let bare = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rest);
    match (bare.parse::<IpAddr>(), rest.parse::<SocketAddr>()) {
        (Ok(ip), _) => Ok((protocol, ip, None)),
        (_, Ok(to)) if to.port() > 0 => Ok((protocol, to.ip(), Some(to.port()))),
        _ => Err(format!("{text:?} is not an address; expected {wanted}")),
    }
}

/// How long a trace is to last.
pub fn read_lasting(text: &str) -> Result<Duration, String> {
    let lasting = config::parse_duration(text)?;
    match Duration::ZERO < lasting && lasting <= LONGEST_TRACE {
        true => Ok(lasting),
        false => Err(format!("{text} is not above 0 and at most {} s", LONGEST_TRACE.as_secs())),
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
            ("fd00::a:80", "such as [fd00::a:80]:80"),
            ("web", "expected [tcp:|udp:|sctp:]ADDRESS:PORT"),
        ] {
            assert!(read_packet(text).unwrap_err().contains(hint), "{text}");
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
        assert_eq!(read_lasting("1m30s"), Ok(Duration::from_secs(90)));
        assert!(["0s", "601s", "-1s", "10"].into_iter().all(|text| read_lasting(text).is_err()));
    }

    #[test]
    fn services_are_named_with_their_namespace() {
        assert_eq!(read_service("default/web"), Ok(Target::Service("default/web".into(), None)));
        let port = Some("http".to_owned());
        assert_eq!(read_service("default/web:http"), Ok(Target::Service("default/web".into(), port)));
        for text in ["web", "default/", "a/b/c", "a/b:", "a/<b>", "a/b:c d"] {
            assert!(read_service(text).is_err(), "{text}");
        }
    }
}
