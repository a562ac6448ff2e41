//! The target behind `-j` and its options.

use std::net::{IpAddr, SocketAddr};

use super::parse::Grammar;
use super::parse_match::{mark_value, number};
use super::rule::*;
use super::words::Words;

/// Names that `-j` takes for something else than a chain.
pub(super) const TARGETS: [&str; 7] = ["ACCEPT", "DROP", "RETURN", "REJECT", "DNAT", "MASQUERADE", "MARK"];

pub(super) fn read(words: &mut Words<'_>, grammar: Grammar) -> Result<Target, String> {
    match words.value("-j")? {
        "ACCEPT" => Ok(Target::Accept),
        "DROP" => Ok(Target::Drop),
        "RETURN" => Ok(Target::Return),
        "REJECT" => reject(words, grammar),
        "DNAT" => redirect(words, grammar),
        "MASQUERADE" => masquerade(words, grammar),
        "MARK" => set_mark(words),
        chain => Ok(Target::Jump(chain.to_owned())),
    }
}

fn reject(words: &mut Words<'_>, grammar: Grammar) -> Result<Target, String> {
    let icmp = Refusal::PortUnreachable { is_ipv6: grammar.is_ipv6 };
    let Some(option) = words.plain_option(&["--reject-with"])? else { return Ok(Target::Reject(icmp)) };
    let how = words.value(option)?;
    let known = [Refusal::TcpReset, icmp].into_iter().find(|refusal| refusal.to_string() == how);
    known.map(Target::Reject).ok_or_else(|| format!("unknown reject type `{how}`"))
}

fn redirect(words: &mut Words<'_>, grammar: Grammar) -> Result<Target, String> {
    let option =
        words.plain_option(&["--to-destination"])?.ok_or("DNAT: --to-destination must be specified")?;
    let text = words.value(option)?;
    let with_port = text.parse::<SocketAddr>().map(|at| (at.ip(), Some(at.port())));
    let found = with_port.or_else(|_| text.parse::<IpAddr>().map(|ip| (ip, None)));
    let (to, port) = found
        .ok()
        .filter(|(ip, _)| ip.is_ipv6() == grammar.is_ipv6)
        .ok_or_else(|| format!("DNAT: bad address or port in `{text}`"))?;
    Ok(Target::Dnat { to, port })
}

fn masquerade(words: &mut Words<'_>, grammar: Grammar) -> Result<Target, String> {
    let random_fully = grammar.random_fully && words.plain_option(&["--random-fully"])?.is_some();
    Ok(Target::Masquerade { random_fully })
}

fn set_mark(words: &mut Words<'_>) -> Result<Target, String> {
    const OPTIONS: [&str; 5] = ["--set-xmark", "--set-mark", "--or-mark", "--xor-mark", "--and-mark"];
    let option = words.plain_option(&OPTIONS)?.ok_or("MARK: an option is required")?;
    let text = words.value(option)?;
    let mark = match option {
        "--set-xmark" => mark_value(text)?,
        "--set-mark" => {
            let Mark { value, mask } = mark_value(text)?;
            Mark { value, mask: value | mask }
        }
        "--or-mark" => Mark { value: number(text)?, mask: number(text)? },
        "--xor-mark" => Mark { value: number(text)?, mask: 0 },
        _ => Mark { value: 0, mask: !number(text)? },
    };
    Ok(Target::SetMark(mark))
}
