//! The arguments of a command: words, and flags as Kubernetes' tools take them.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use config::DefaultMode;
use config::flags::{self, Command};
use config::suggest::did_you_mean;

use crate::targets;

/// What follows the name of a command.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) words: Vec<String>,
    pub(super) help: bool,
    /// Flags with their values, by their long names.
    given: Vec<(&'static str, String)>,
}

/// Long name, short name, and whether a value follows.
pub(super) const FLAGS: [(&str, &str, bool); 13] = [
    ("agent", "", true),
    ("config", "", true),
    ("metrics-bind-address", "", true),
    ("from", "", true),
    ("for", "", true),
    ("output", "o", true),
    ("namespace", "n", true),
    ("all-namespaces", "A", false),
    ("problems", "", false),
    ("watch", "w", false),
    ("node", "", true),
    ("force", "", false),
    ("ends-with-input", "", false),
];

impl Arguments {
    /// `usage` names the flags that may have been meant where one is unknown.
    pub(super) fn read(arguments: impl Iterator<Item = String>, usage: &str) -> Result<Arguments, String> {
        let mut arguments = arguments.peekable();
        let mut read = Arguments::default();
        while let Some(argument) = arguments.next() {
            if argument == "-" || !argument.starts_with('-') {
                read.words.push(argument);
                continue;
            }
            let (flag, value) = match argument.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            let name = flag.trim_start_matches('-');
            if ["help", "h"].contains(&name) {
                read.help = true;
                continue;
            }
            let known =
                FLAGS.iter().find(|(long, short, _)| name == *long || !short.is_empty() && name == *short);
            let Some((long, _, takes_value)) = known else {
                let words = || usage.split(|c: char| !c.is_ascii_lowercase() && c != '-');
                let is_of_command = |long: &&str| words().any(|word| word.strip_prefix("--") == Some(*long));
                let names = FLAGS.iter().map(|(long, ..)| *long).filter(is_of_command).chain(["help"]);
                let guess = did_you_mean("--", name, names.filter(|_| name.len() > 1));
                return Err(format!(
                    "unknown flag {flag}{guess}{}",
                    if guess.is_empty() { "; see --help" } else { "" }
                ));
            };
            let value = match (value, takes_value) {
                (Some(value), _) => value,
                (None, true) => {
                    let value = arguments.next_if(|next| !next.starts_with("--"));
                    value.ok_or_else(|| format!("{flag} needs a value; see --help"))?
                }
                (None, false) => "true".to_owned(),
            };
            read.given.push((*long, value));
        }
        Ok(read)
    }

    /// The last value of a flag.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// Whether a flag without a value is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "false")
    }

    /// Refuse flags that the command does not know.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), String> {
        const OF_ALL: [&str; 3] = ["agent", "config", "metrics-bind-address"];
        let unknown = self.given.iter().find(|(name, _)| !known.contains(name) && !OF_ALL.contains(name));
        unknown.map_or(Ok(()), |(name, _)| Err(format!("--{name} is not a flag of this command; see --help")))
    }

    /// Where the agent listens: as said, or as its own configuration has it.
    pub(super) fn agent(&self) -> Result<SocketAddr, String> {
        let address = match self.value("agent") {
            Some(text) => Some(text.parse().map_err(|_| {
                let why = targets::why_no_socket(text);
                format!("--agent: {text:?} is not ADDRESS:PORT, such as 127.0.0.1:10249{why}")
            })?),
            None => self.configured()?,
        };
        let address =
            address.ok_or("the configuration serves no metrics, and so nothing to ask; see --agent")?;
        Ok(reachable(address))
    }

    fn configured(&self) -> Result<Option<SocketAddr>, String> {
        let flag = |name: &str| self.value(name).map(|value| OsString::from(format!("--{name}={value}")));
        let given = ["config", "metrics-bind-address"].into_iter().filter_map(flag);
        // What an agent needs beside it, so that nothing is asked of this machine.
        let rest = ["--manifests=/", "--hostname-override=node"].map(OsString::from);
        let parsed = flags::parse(given.chain(rest), DefaultMode::nftables)?;
        match parsed.command {
            Command::Run(resolved) => Ok(resolved.options.metrics_bind_address),
            _ => Ok(None),
        }
    }
}

/// An agent that listens on all addresses is asked on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Arguments, String> {
        let usage = "  --from ADDRESS\n  -o, --output FORM\n  --force\n";
        Arguments::read(words.iter().map(|word| (*word).to_owned()), usage)
    }

    #[test]
    fn flags_stand_anywhere_and_the_last_counts() {
        let arguments = read(&["-o", "json", "service", "--from=10.0.0.1", "a/b", "-o=yaml"]).unwrap();
        assert_eq!(arguments.words, ["service", "a/b"]);
        assert_eq!((arguments.value("output"), arguments.value("from")), (Some("yaml"), Some("10.0.0.1")));
        assert!(arguments.only(&["output", "from"]).is_ok());
        assert!(arguments.only(&["output"]).unwrap_err().contains("--from"));
        assert!(read(&["--frm", "x"]).unwrap_err().contains("unknown flag --frm"));
        assert!(read(&["--frm", "x"]).unwrap_err().ends_with("did you mean --from?"));
        for other in ["--fr", "--fo", "--foo", "-x"] {
            let problem = read(&[other]).unwrap_err();
            assert!(!problem.contains("--for"), "of another command: {problem}");
        }
        assert_eq!(read(&["-x"]).unwrap_err(), "unknown flag -x; see --help");
        assert!(read(&["--from"]).unwrap_err().contains("needs a value"));
        assert!(read(&["--from", "--watch"]).unwrap_err().contains("--from needs a value"));
    }

    #[test]
    fn the_agent_is_where_its_configuration_says() {
        let at = |words: &[&str]| read(words).unwrap().agent().map(|at| at.to_string());
        assert_eq!(at(&[]).unwrap(), "127.0.0.1:10249");
        assert_eq!(at(&["--metrics-bind-address=0.0.0.0:7000"]).unwrap(), "127.0.0.1:7000");
        assert_eq!(at(&["--metrics-bind-address=[::]:7000"]).unwrap(), "[::1]:7000");
        assert_eq!(at(&["--agent=10.0.0.1:9"]).unwrap(), "10.0.0.1:9");
        for (given, cause) in [
            ("here", ": \"here\" is a name, and names are not looked up"),
            ("localhost:10249", ": \"localhost\" is a name, and names are not looked up"),
            ("127.0.0.1", ": the port is missing"),
            ("127.0.0.1:x", ": the port must be a number from 1 to 65535, not \"x\""),
        ] {
            let problem = at(&[&format!("--agent={given}")]).unwrap_err();
            assert!(problem.starts_with("--agent: ") && problem.ends_with(cause), "{problem}");
        }
        assert!(at(&["--config=/nowhere"]).unwrap_err().contains("/nowhere"));
    }
}
