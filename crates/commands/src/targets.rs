//! How people write what they ask about: `udp:10.96.0.10:53`, `node:30080`, `default/web:http`.

use std::net::{IpAddr, SocketAddr};

use model::{Protocol, ServiceKey};

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
    let (protocol, rest) = match text.split_once(':') {
        Some((word, rest)) if protocol(word).is_some() => (protocol(word).unwrap_or(Protocol::Tcp), rest),
        _ => (Protocol::Tcp, text),
    };
    let wanted = "[tcp:|udp:|sctp:]ADDRESS:PORT, such as 10.96.0.10:80, udp:[fd00::a]:53 or node:30080";
    if let Some(port) = rest.strip_prefix("node:") {
        let port = port.parse().ok().filter(|port| *port > 0);
        let port: u16 = port.ok_or_else(|| format!("{text:?} has no port; expected {wanted}"))?;
        return Ok(Target::NodePort(protocol, port));
    }
    match rest.parse::<SocketAddr>() {
        Ok(to) if to.port() > 0 => Ok(Target::At(protocol, to)),
        _ => Err(format!("{text:?} is no address and port; expected {wanted}")),
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
        false => Err(format!("{text:?} is no service; expected NAMESPACE/NAME[:PORT]")),
    }
}

pub fn read_client(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is no IP address"))
}

fn protocol(word: &str) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|one| one.to_string() == word)
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
            ("10.96.0.10", None),
            ("10.96.0.10:0", None),
            ("10.96.0.10:70000", None),
            ("icmp:10.96.0.10:80", None),
            ("node:", None),
            ("", None),
        ] {
            assert_eq!(read_packet(text).ok(), wanted, "{text}");
        }
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
