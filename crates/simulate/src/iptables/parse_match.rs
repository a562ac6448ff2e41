//! The options behind each `-m`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::parse::{Grammar, network, protocol};
use super::rule::*;
use super::words::{Words, set_once};

/// The tools cut a longer comment without a word.
const COMMENT_LENGTH: usize = 255;
/// The same for the name of a list.
const LIST_NAME_LENGTH: usize = 199;

pub(super) fn read(module: &str, words: &mut Words<'_>, grammar: Grammar) -> Result<Match, String> {
    match module {
        "comment" => comment(words),
        "mark" => mark(words),
        "conntrack" => tracked(words, grammar),
        "addrtype" => local(words),
        "statistic" => random(words),
        "recent" => recent(words, grammar),
        "nfacct" => account(words),
        _ => ports(module, words),
    }
}

fn ports(module: &str, words: &mut Words<'_>) -> Result<Match, String> {
    let protocol = protocol(module).ok_or_else(|| format!("couldn't load match `{module}`"))?;
    let mut destination = None;
    while let Some((negated, option)) = words.option(&["--dport", "--destination-port"]) {
        let value = port_range(words.value(option)?)?;
        set_once(&mut destination, Condition { negated, value }, option)?;
    }
    Ok(Match::Ports { protocol, destination })
}

/// One port, or the first and the last of a range.
pub(super) fn port_range(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| text.parse::<u16>().map_err(|_| format!("invalid port `{text}`"));
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    match (port(first)?, port(last)?) {
        (0, u16::MAX) => Err(format!("the ports `{text}` are all there are")),
        (first, last) if first <= last => Ok((first, last)),
        _ => Err(format!("invalid range of ports `{text}`")),
    }
}

fn comment(words: &mut Words<'_>) -> Result<Match, String> {
    words.plain_option(&["--comment"])?.ok_or("comment: --comment must be specified")?;
    let text = words.value("--comment")?;
    if text.len() > COMMENT_LENGTH {
        return Err(format!("comment: longer than {COMMENT_LENGTH} bytes"));
    }
    Ok(Match::Comment(text.to_owned()))
}

fn mark(words: &mut Words<'_>) -> Result<Match, String> {
    let (negated, option) = words.option(&["--mark"]).ok_or("mark: --mark must be specified")?;
    Ok(Match::Mark(Condition { negated, value: mark_value(words.value(option)?)? }))
}

/// `value` or `value/mask`.
pub(super) fn mark_value(text: &str) -> Result<Mark, String> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    Ok(Mark { value: number(value)?, mask: number(mask)? })
}

pub(super) fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("bad number `{text}`"))
}

fn tracked(words: &mut Words<'_>, grammar: Grammar) -> Result<Match, String> {
    let (mut states, mut original) = (None, None);
    while let Some((negated, option)) = words.option(&["--ctstate", "--ctorigdst"]) {
        let value = words.value(option)?;
        match option {
            "--ctstate" => set_once(&mut states, Condition { negated, value: state_names(value)? }, option)?,
            _ => set_once(&mut original, Condition { negated, value: network(value, grammar)? }, option)?,
        }
    }
    if states.is_none() && original.is_none() {
        return Err("conntrack: an option is required".to_owned());
    }
    Ok(Match::Tracked { states, original })
}

fn state_names(text: &str) -> Result<States, String> {
    let mut states = States::default();
    for name in text.split(',') {
        states.0 |= States::named(name).ok_or_else(|| format!("bad ctstate `{name}`"))?.0;
    }
    Ok(states)
}

fn local(words: &mut Words<'_>) -> Result<Match, String> {
    let (mut source, mut destination) = (None, None);
    while let Some((negated, option)) = words.option(&["--src-type", "--dst-type"]) {
        match words.value(option)? {
            "LOCAL" if option == "--src-type" => set_once(&mut source, !negated, option)?,
            "LOCAL" => set_once(&mut destination, !negated, option)?,
            other => return Err(format!("addrtype: bad type `{other}`")),
        }
    }
    if source.is_none() && destination.is_none() {
        return Err("addrtype: --src-type or --dst-type must be specified".to_owned());
    }
    Ok(Match::Local { source, destination })
}

fn random(words: &mut Words<'_>) -> Result<Match, String> {
    let (mut mode, mut probability) = (None, None);
    while let Some(option) = words.plain_option(&["--mode", "--probability"])? {
        let value = words.value(option)?;
        let place = if option == "--mode" { &mut mode } else { &mut probability };
        set_once(place, value, option)?;
    }
    if mode != Some("random") {
        return Err("statistic: --mode random must be specified".to_owned());
    }
    let text = probability.ok_or("statistic: --probability must be specified")?;
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
    let value = value.ok_or_else(|| format!("statistic: bad probability `{text}`"))?;
    Ok(Match::Random((value * f64::from(1u32 << 31)).round() as u32))
}

fn recent(words: &mut Words<'_>, grammar: Grammar) -> Result<Match, String> {
    const ACTIONS: [&str; 4] = ["--set", "--rcheck", "--update", "--remove"];
    const OTHERS: [&str; 5] = ["--name", "--seconds", "--reap", "--mask", "--rsource"];
    let mask = match grammar.is_ipv6 {
        false => IpAddr::V4(Ipv4Addr::BROADCAST),
        true => IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
    };
    let (mut action, mut name, mut seconds, mut reap) = (None, None, None, None);
    loop {
        if let Some((negated, option)) = words.option(&ACTIONS) {
            set_once(&mut action, (negated, option), "action of recent")?;
            continue;
        }
        match words.plain_option(&OTHERS)? {
            Some("--name") => set_once(&mut name, words.value("--name")?, "--name")?,
            Some("--seconds") => set_once(&mut seconds, number(words.value("--seconds")?)?, "--seconds")?,
            Some("--reap") => set_once(&mut reap, true, "--reap")?,
            Some("--mask") if words.value("--mask")? != mask.to_string() => {
                return Err("recent: only whole addresses are modelled".to_owned());
            }
            Some(_) => {}
            None => break,
        }
    }
    let (negated, action) = action.ok_or("recent: one of --set, --rcheck, --update, --remove is required")?;
    let action = match action {
        "--set" => RecentAction::Set,
        "--rcheck" => RecentAction::Check,
        "--update" => RecentAction::Update,
        _ => RecentAction::Remove,
    };
    let (list, reap) = (name.unwrap_or("DEFAULT").to_owned(), reap.unwrap_or_default());
    checked(Recent { list, action, negated, seconds, reap, mask })
}

fn checked(recent: Recent) -> Result<Match, String> {
    let times = matches!(recent.action, RecentAction::Check | RecentAction::Update);
    match recent {
        Recent { seconds: Some(0), .. } => Err("recent: --seconds must be more than none".to_owned()),
        Recent { seconds: Some(_), .. } if !times => {
            Err("recent: --seconds only goes with --rcheck and --update".to_owned())
        }
        Recent { seconds: None, reap: true, .. } => Err("recent: --reap requires --seconds".to_owned()),
        Recent { ref list, .. } if list.is_empty() || list.len() > LIST_NAME_LENGTH || list.contains('/') => {
            Err(format!("recent: `{list}` cannot be the name of a list"))
        }
        recent => Ok(Match::Recent(recent)),
    }
}

fn account(words: &mut Words<'_>) -> Result<Match, String> {
    words.plain_option(&["--nfacct-name"])?.ok_or("nfacct: --nfacct-name must be specified")?;
    Ok(Match::Account(words.value("--nfacct-name")?.to_owned()))
}
