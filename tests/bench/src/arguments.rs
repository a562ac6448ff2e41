//! The command line.

use std::path::PathBuf;

use crate::Failure;
use crate::children::Part;

pub(crate) const HELP: &str = "\
usage: bench [--quick] [--only PART] [--check] [--json FILE] [--agent-sizes N,N] [--kube-proxy FILE]

  --quick              only 1,000 and 10,000 services, few repetitions, the small yardstick
  --only PART          nftables, iptables (loads, changes and first packets), first-packet, isolation (a change beside
                       another tenant's costly objects), reactions (to changes, damage and SIGTERM), questions (explain, services
                       and the page), userspace (mode userspace beside HAProxy and the direct path, and crowd) or crowd
                       (10,000 open connections in mode userspace)
  --check              exit with 1 if a limit is missed
  --json FILE          write every number there too
  --agent-sizes N,N    services the real agent is started with (default 10000)
  --kube-proxy FILE    the agent to start (default: built now, with the profile of this program)

Needs root: batches of megabytes want SO_SNDBUFFORCE. The iptables parts want iptables-legacy and iptables-nft. Everything happens in network namespaces of its own.
";

pub(crate) enum Command {
    Help,
    /// Measure one part; for the processes that the program starts of itself.
    Child(Part),
    Measure(Arguments),
}

/// A part of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    Nftables,
    Iptables,
    FirstPacket,
    Isolation,
    Reactions,
    Questions,
    Userspace,
    Crowd,
}

pub(crate) struct Arguments {
    pub(crate) quick: bool,
    pub(crate) only: Option<Only>,
    pub(crate) check: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) agent_sizes: Vec<u32>,
    pub(crate) kube_proxy: Option<PathBuf>,
}

pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Command, Failure> {
    let mut words = words.peekable();
    if words.next_if(|word| word == "child").is_some() {
        let part = words.next().ok_or("child of what?")?;
        return Ok(Command::Child(serde_json::from_str(&part)?));
    }
    let mut arguments = Arguments {
        quick: false,
        only: None,
        check: false,
        json: None,
        agent_sizes: vec![10_000],
        kube_proxy: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => arguments.quick = true,
            "--only" => arguments.only = Some(only(&value()?)?),
            "--check" => arguments.check = true,
            "--json" => arguments.json = Some(value()?.into()),
            "--agent-sizes" => {
                arguments.agent_sizes = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--kube-proxy" => arguments.kube_proxy = Some(value()?.into()),
            "--help" | "-h" => return Ok(Command::Help),
            _ => return Err(format!("unknown argument {word:?}; try --help").into()),
        }
    }
    Ok(Command::Measure(arguments))
}

fn only(text: &str) -> Result<Only, Failure> {
    match text {
        "nftables" => Ok(Only::Nftables),
        "iptables" => Ok(Only::Iptables),
        "first-packet" => Ok(Only::FirstPacket),
        "isolation" => Ok(Only::Isolation),
        "reactions" => Ok(Only::Reactions),
        "questions" => Ok(Only::Questions),
        "userspace" => Ok(Only::Userspace),
        "crowd" => Ok(Only::Crowd),
        _ => Err(format!(
            "--only {text}: there are nftables, iptables, first-packet, isolation, reactions, questions, userspace and crowd"
        )
        .into()),
    }
}
