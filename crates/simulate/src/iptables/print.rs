//! Rules in the words of `iptables-save`: both variants print the same, whatever way a rule was written.

use std::fmt;
use std::net::IpAddr;

use super::rule::*;

impl fmt::Display for Rule {
    /// Each part with a blank before it, as it stands behind `-A CHAIN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        condition(f, "-s", &self.source)?;
        condition(f, "-d", &self.destination)?;
        condition(f, "-i", &self.in_interface)?;
        condition(f, "-o", &self.out_interface)?;
        condition(f, "-p", &self.protocol)?;
        self.matches.iter().try_for_each(|one| write!(f, "{one}"))?;
        write!(f, "{}", self.target)
    }
}

fn condition<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    option: &str,
    condition: &Option<Condition<T>>,
) -> fmt::Result {
    let Some(Condition { negated, value }) = condition else { return Ok(()) };
    write!(f, "{} {option} {value}", not(*negated))
}

fn not(negated: bool) -> &'static str {
    if negated { " !" } else { "" }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Match::Ports { protocol, destination } => {
                write!(f, " -m {protocol}")?;
                let Some(Condition { negated, value: (first, last) }) = destination else { return Ok(()) };
                write!(f, "{} --dport {first}", not(*negated))?;
                if first == last { Ok(()) } else { write!(f, ":{last}") }
            }
            Match::Comment(text) => write!(f, " -m comment --comment {}", Quoted(text)),
            Match::Mark(Condition { negated, value }) => {
                write!(f, " -m mark{} --mark {:#x}", not(*negated), value.value)?;
                if value.mask == u32::MAX { Ok(()) } else { write!(f, "/{:#x}", value.mask) }
            }
            Match::Tracked { states, original } => {
                f.write_str(" -m conntrack")?;
                condition(f, "--ctstate", states)?;
                // The one place where a whole address is printed without its length.
                match original {
                    Some(Condition { negated, value }) if value.prefix_len() == value.max_prefix_len() => {
                        write!(f, "{} --ctorigdst {}", not(*negated), value.addr())
                    }
                    _ => condition(f, "--ctorigdst", original),
                }
            }
            Match::Local { source, destination } => {
                f.write_str(" -m addrtype")?;
                for (option, wanted) in [("--src-type", source), ("--dst-type", destination)] {
                    if let Some(wanted) = wanted {
                        write!(f, "{} {option} LOCAL", not(!wanted))?;
                    }
                }
                Ok(())
            }
            Match::Random(of) => {
                write!(
                    f,
                    " -m statistic --mode random --probability {:.11}",
                    f64::from(*of) / f64::from(1u32 << 31)
                )
            }
            Match::Recent(recent) => write!(f, "{recent}"),
            Match::Account(name) => write!(f, " -m nfacct --nfacct-name {name}"),
        }
    }
}

impl fmt::Display for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            RecentAction::Set => "--set",
            RecentAction::Check => "--rcheck",
            RecentAction::Update => "--update",
            RecentAction::Remove => "--remove",
        };
        write!(f, " -m recent{} {action}", not(self.negated))?;
        if let Some(seconds) = self.seconds {
            write!(f, " --seconds {seconds}")?;
        }
        if self.reap {
            f.write_str(" --reap")?;
        }
        write!(f, " --name {} --mask {} --rsource", self.list, self.mask)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::None => Ok(()),
            Target::Accept => f.write_str(" -j ACCEPT"),
            Target::Drop => f.write_str(" -j DROP"),
            Target::Return => f.write_str(" -j RETURN"),
            Target::Reject(refusal) => write!(f, " -j REJECT --reject-with {refusal}"),
            Target::Dnat { to, port: None } => write!(f, " -j DNAT --to-destination {to}"),
            Target::Dnat { to: IpAddr::V4(to), port: Some(port) } => {
                write!(f, " -j DNAT --to-destination {to}:{port}")
            }
            Target::Dnat { to: IpAddr::V6(to), port: Some(port) } => {
                write!(f, " -j DNAT --to-destination [{to}]:{port}")
            }
            Target::Masquerade { random_fully: false } => f.write_str(" -j MASQUERADE"),
            Target::Masquerade { random_fully: true } => f.write_str(" -j MASQUERADE --random-fully"),
            Target::SetMark(mark) => write!(f, " -j MARK --set-xmark {:#x}/{:#x}", mark.value, mark.mask),
            Target::Jump(chain) => write!(f, " -j {chain}"),
            Target::Goto(chain) => write!(f, " -g {chain}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TcpReset => "tcp-reset",
            Refusal::PortUnreachable { is_ipv6: false } => "icmp-port-unreachable",
            Refusal::PortUnreachable { is_ipv6: true } => "icmp6-port-unreachable",
        })
    }
}

/// In quotes where anything but letters, digits, dashes and underscores is in it.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !self.0.is_empty() && self.0.bytes().all(plain) {
            return f.write_str(self.0);
        }
        f.write_str("\"")?;
        for character in self.0.chars() {
            if matches!(character, '"' | '\'' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{character}")?;
        }
        f.write_str("\"")
    }
}
