//! Single values of a field: addresses, prefixes, ports, protocols. Every error names its field.

use std::fmt::Display;
use std::net::IpAddr;
use std::num::NonZeroU16;

use ipnet::IpNet;
use model::Protocol;

use super::Invalid;

/// Where a value stands, spelled out only when an error needs it.
pub(super) type Field<'a> = std::fmt::Arguments<'a>;

fn invalid(field: Field<'_>, value: impl Display, why: &str) -> Invalid {
    Invalid::new(field.to_string(), format!("{value} {why}"))
}

pub(super) fn ip(field: Field<'_>, text: &str) -> Result<IpAddr, Invalid> {
    match text.parse() {
        // The API spells these as IPv4; as IPv6 they would land in the wrong family.
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err(invalid(field, quoted(text), "is an IPv4-mapped IPv6 address; write it as IPv4"))
        }
        Ok(ip) => Ok(ip),
        Err(_) => Err(invalid(field, quoted(text), "is not an IP address")),
    }
}

/// A prefix; stray blanks and host bits are forgiven, as upstream does.
pub(super) fn cidr(field: Field<'_>, text: &str) -> Result<IpNet, Invalid> {
    let net: Result<IpNet, _> = text.trim().parse();
    net.map(|net| net.trunc()).map_err(|_| invalid(field, quoted(text), "is not a CIDR like 10.0.0.0/8"))
}

pub(super) fn port(field: Field<'_>, number: i64) -> Result<u16, Invalid> {
    node_port(field, number).map(NonZeroU16::get)
}

pub(super) fn node_port(field: Field<'_>, number: i64) -> Result<NonZeroU16, Invalid> {
    let port = u16::try_from(number).ok().and_then(NonZeroU16::new);
    port.ok_or_else(|| invalid(field, number, "is not a port (1-65535)"))
}

/// A node port where 0 means "none", as the API writes unset numbers.
pub(super) fn optional_port(field: Field<'_>, number: Option<i64>) -> Result<Option<NonZeroU16>, Invalid> {
    number.filter(|number| *number != 0).map(|number| node_port(field, number)).transpose()
}

pub(super) fn protocol(field: Field<'_>, text: Option<&str>) -> Result<Protocol, Invalid> {
    match text.unwrap_or_default() {
        "TCP" | "" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        "SCTP" => Ok(Protocol::Sctp),
        other => Err(invalid(field, quoted(other), "is not a protocol (TCP, UDP or SCTP)")),
    }
}

pub(super) fn one_of<T: Copy>(field: &str, text: Option<&str>, values: &[(&str, T)]) -> Result<T, Invalid> {
    let text = text.unwrap_or_default();
    let found = values.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        Invalid::new(field, format!("{} is not one of {}", quoted(text), names.join(", ")))
    })
}

/// Input in a message: quoted, and short enough for a log line.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.len() <= LONGEST {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start:?}...")
}
