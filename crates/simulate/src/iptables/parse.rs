//! Words to rules. An option that is not known here is an error, as it would be to the tools; some that they know and
//! that are never written here are errors too.

use std::net::IpAddr;

use ipnet::IpNet;

use super::parse_match;
use super::parse_target;
use super::rule::*;
use super::words::{Words, set_once};
use crate::Protocol;

/// Which words a rule may use.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    pub(super) is_ipv6: bool,
    pub(super) random_fully: bool,
}

const OPTIONS: [&str; 18] = [
    "-s",
    "--source",
    "-d",
    "--destination",
    "-i",
    "--in-interface",
    "-o",
    "--out-interface",
    "-p",
    "--protocol",
    "-m",
    "--match",
    "-j",
    "--jump",
    "-g",
    "--goto",
    "--dport",
    "--destination-port",
];
/// `IFNAMSIZ`, without the zero at the end.
const INTERFACE_LENGTH: usize = 15;

pub(super) fn rule(mut words: Words<'_>, grammar: Grammar) -> Result<Rule, String> {
    let mut rule = Rule::default();
    let mut target = None;
    while let Some(next) = words.peek() {
        let (negated, option) =
            words.option(&OPTIONS).ok_or_else(|| format!("bad argument or unknown option `{next}`"))?;
        match option {
            "-m" | "--match" | "-j" | "--jump" | "-g" | "--goto" if negated => {
                return Err(format!("unexpected ! before {option}"));
            }
            "-m" | "--match" => {
                let found = parse_match::read(words.value(option)?, &mut words, grammar)?;
                rule.matches.push(found);
            }
            "-j" | "--jump" => set_once(&mut target, parse_target::read(&mut words, grammar)?, option)?,
            "-g" | "--goto" => set_once(&mut target, Target::Goto(words.value(option)?.to_owned()), option)?,
            "--dport" | "--destination-port" => destination_port(&mut rule, negated, words.value(option)?)?,
            _ => header(&mut rule, negated, option, words.value(option)?, grammar)?,
        }
    }
    rule.target = target.unwrap_or_default();
    check(&rule)?;
    Ok(rule)
}

fn header(rule: &mut Rule, negated: bool, option: &str, value: &str, grammar: Grammar) -> Result<(), String> {
    match option {
        "-s" | "--source" => put_network(&mut rule.source, negated, option, value, grammar),
        "-d" | "--destination" => put_network(&mut rule.destination, negated, option, value, grammar),
        "-i" | "--in-interface" => put_interface(&mut rule.in_interface, negated, option, value),
        "-o" | "--out-interface" => put_interface(&mut rule.out_interface, negated, option, value),
        _ => {
            let value = protocol(value).ok_or_else(|| format!("unknown protocol `{value}`"))?;
            set_once(&mut rule.protocol, Condition { negated, value }, option)
        }
    }
}

/// A network of everything asks nothing, and is not kept.
fn put_network(
    place: &mut Option<Condition<IpNet>>,
    negated: bool,
    option: &str,
    text: &str,
    grammar: Grammar,
) -> Result<(), String> {
    let value = network(text, grammar)?;
    match value.prefix_len() {
        0 if negated => Err(format!("! {option} {text} matches nothing")),
        0 => Ok(()),
        _ => set_once(place, Condition { negated, value }, option),
    }
}

pub(super) fn network(text: &str, grammar: Grammar) -> Result<IpNet, String> {
    let found = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let found = found.ok().filter(|net| net.addr().is_ipv6() == grammar.is_ipv6);
    found.map(|net| net.trunc()).ok_or_else(|| format!("host or network `{text}` not found"))
}

fn put_interface(
    place: &mut Option<Condition<Interface>>,
    negated: bool,
    option: &str,
    name: &str,
) -> Result<(), String> {
    match name {
        "" => Err("an interface without a name".to_owned()),
        "+" if negated => Err(format!("! {option} + matches nothing")),
        "+" => Ok(()),
        _ if name.len() > INTERFACE_LENGTH => Err(format!("the interface name `{name}` is too long")),
        _ => set_once(place, Condition { negated, value: Interface(name.to_owned()) }, option),
    }
}

pub(super) fn protocol(name: &str) -> Option<Protocol> {
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    all.into_iter().find(|protocol| protocol.to_string() == name)
}

/// Away from its `-m`, or without one, as the tools allow it.
fn destination_port(rule: &mut Rule, negated: bool, text: &str) -> Result<(), String> {
    let ports = parse_match::port_range(text)?;
    let known = rule.matches.iter_mut().find_map(|one| match one {
        Match::Ports { destination, .. } => Some(destination),
        _ => None,
    });
    if let Some(place) = known {
        return set_once(place, Condition { negated, value: ports }, "--dport");
    }
    let protocol = rule.certain_protocol().ok_or("--dport without a protocol that has ports")?;
    let destination = Some(Condition { negated, value: ports });
    rule.matches.push(Match::Ports { protocol, destination });
    Ok(())
}

/// What only the whole rule tells.
fn check(rule: &Rule) -> Result<(), String> {
    let protocol = rule.certain_protocol();
    for one in &rule.matches {
        match one {
            Match::Ports { protocol: wanted, .. } if protocol != Some(*wanted) => {
                return Err(format!("a match of {wanted} ports requires -p {wanted}"));
            }
            _ => {}
        }
    }
    match rule.target {
        Target::Dnat { port: Some(_), .. } if rule.protocol.is_none() => {
            Err("DNAT to a port requires a protocol that has ports".to_owned())
        }
        Target::Reject(Refusal::TcpReset) if protocol != Some(Protocol::Tcp) => {
            Err("REJECT with tcp-reset requires -p tcp".to_owned())
        }
        _ => Ok(()),
    }
}
