//! Single values of a field: addresses, prefixes, ports, protocols. Every error names its field.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use ipnet::{IpNet, Ipv4Net};
use model::Protocol;

use super::Invalid;
use crate::objects::{Text, shown};

/// Where a value stands, spelled out only when an error needs it.
pub(super) type Field<'a> = std::fmt::Arguments<'a>;

/// Longer than any address, however many zeros it has.
const LONGEST_ADDRESS: usize = 128;
/// Of an IPv4-mapped IPv6 address, the bits before the IPv4 address.
const MAPPED_BITS: u8 = 96;

fn invalid(field: Field<'_>, value: impl Display, why: &str) -> Invalid {
    Invalid::new(field.to_string(), format!("{value} {why}"))
}

/// As Kubernetes reads stored addresses: leading zeros are decimal, and an IPv4-mapped IPv6 address is IPv4.
pub(super) fn ip(field: Field<'_>, text: &Text) -> Result<IpAddr, Invalid> {
    let text = shown(text);
    match address(&text) {
        Some(ip) => Ok(ip.to_canonical()),
        None => Err(invalid(field, quoted(&text), "is not an IP address")),
    }
}

/// An address at which clients outside find a service. One of the node's own loopback would take away what listens there.
pub(super) fn outer_ip(field: Field<'_>, text: &Text) -> Result<IpAddr, Invalid> {
    let ip = ip(field, text)?;
    match ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
        false => Ok(ip),
        true => Err(invalid(field, quoted(&shown(text)), "is not an address of a service")),
    }
}

/// As it is spelled; not canonical yet.
fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| with_leading_zeros(text))
}

/// `010.000.000.001`, which old releases of Kubernetes stored, alone or at the end of an IPv6 address.
fn with_leading_zeros(text: &str) -> Option<IpAddr> {
    if text.len() > LONGEST_ADDRESS || !text.contains('.') {
        return None;
    }
    let (head, quad) = text.split_at(text.rfind(':').map_or(0, |colon| colon + 1));
    let quad = decimal(quad)?;
    match head {
        "" => Some(quad.into()),
        head => format!("{head}{quad}").parse::<Ipv6Addr>().ok().map(IpAddr::V6),
    }
}

fn decimal(quad: &str) -> Option<Ipv4Addr> {
    let mut parts = quad.split('.').map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let digits = part.trim_start_matches('0');
        if digits.is_empty() {
            is_number.then_some(0)
        } else {
            digits.parse::<u8>().ok().filter(|_| is_number)
        }
    });
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parts.next()??;
    }
    parts.next().is_none().then(|| octets.into())
}

/// A prefix; stray blanks and host bits are forgiven, as upstream does, and addresses read as [`ip`] does.
pub(super) fn cidr(field: Field<'_>, text: &Text) -> Result<IpNet, Invalid> {
    let text = shown(text);
    prefix(text.trim()).ok_or_else(|| invalid(field, quoted(&text), "is not a CIDR like 10.0.0.0/8"))
}

fn prefix(text: &str) -> Option<IpNet> {
    let net = text.parse().ok().or_else(|| {
        let (ip, bits) = text.split_once('/')?;
        IpNet::new(with_leading_zeros(ip)?, bits.parse().ok()?).ok()
    })?;
    Some(unmapped(net).trunc())
}

/// A prefix within the IPv4-mapped addresses is one of IPv4.
fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let mapped = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(MAPPED_BITS));
    mapped.and_then(|(ip, bits)| Ipv4Net::new(ip, bits).ok()).map_or(net, IpNet::V4)
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

pub(super) fn protocol(field: Field<'_>, text: Option<&Text>) -> Result<Protocol, Invalid> {
    match text.map(|text| &**text).unwrap_or_default() {
        b"TCP" | b"" => Ok(Protocol::Tcp),
        b"UDP" => Ok(Protocol::Udp),
        b"SCTP" => Ok(Protocol::Sctp),
        other => {
            let other = String::from_utf8_lossy(other);
            Err(invalid(field, quoted(&other), "is not a protocol (TCP, UDP or SCTP)"))
        }
    }
}

pub(super) fn one_of<T: Copy>(field: &str, text: Option<&Text>, values: &[(&str, T)]) -> Result<T, Invalid> {
    let text = text.map(|text| &**text).unwrap_or_default();
    let found = values.iter().find(|(name, _)| name.as_bytes() == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        let text = String::from_utf8_lossy(text);
        Invalid::new(field, format!("{} is not one of {}", quoted(&text), names.join(", ")))
    })
}

/// Input in a message: quoted, and short enough for a log line.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.len() <= LONGEST {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start:?}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_kubernetes_reads_stored_ones() {
        for (text, expected) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.000.001", Some("10.0.0.1")),
            ("10.0.0.0000000008", Some("10.0.0.8")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("::ffff:a00:1", Some("10.0.0.1")),
            ("::ffff:010.0.0.1", Some("10.0.0.1")),
            ("64:ff9b::010.0.0.1", Some("64:ff9b::a00:1")),
            ("fd00::1", Some("fd00::1")),
            ("0256.0.0.1", None),
            ("10.0.0", None),
            ("10.0.0.1.1", None),
            ("10..0.1", None),
            ("+1.0.0.1", None),
            ("0x0a.0.0.1", None),
            ("fe80::1%eth0", None),
            (" 10.0.0.1", None),
            ("", None),
        ] {
            let read = ip(format_args!("field"), &Text::from_static(text.as_bytes())).ok();
            assert_eq!(read, expected.map(|ip| ip.parse().unwrap()), "{text:?}");
        }
    }

    #[test]
    fn prefixes_are_read_alike() {
        for (text, expected) in [
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            (" 10.0.0.0/8\n", Some("10.0.0.0/8")),
            ("010.001.000.000/16", Some("10.1.0.0/16")),
            ("::ffff:10.0.0.0/104", Some("10.0.0.0/8")),
            ("::ffff:0:0/96", Some("0.0.0.0/0")),
            ("::ffff:10.0.0.0/64", Some("::/64")),
            ("::/0", Some("::/0")),
            ("10.0.0.0/33", None),
            ("10/8", None),
            ("10.0.0.0", None),
            ("", None),
        ] {
            let read = cidr(format_args!("field"), &Text::from_static(text.as_bytes())).ok();
            assert_eq!(read, expected.map(|net| net.parse().unwrap()), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_utf8_is_refused_in_words() {
        let refused = ip(format_args!("field"), &Text::from_static(b"\xff\xfe")).unwrap_err();
        assert_eq!(refused.to_string(), "field: \"\u{fffd}\u{fffd}\" is not an IP address");
    }
}
