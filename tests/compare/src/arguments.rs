//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use bench_support::variant::ToolVariant;

use crate::Failure;
use crate::cases::Case;
use crate::contestant::Mode;

pub(crate) const HELP: &str = "\
usage: compare [--quick] [--mode MODE] [--sizes N,N] [--variant VARIANT] [--check] [--json FILE] [--svg FILE]
               [--document FILE]...
       compare --mode MODE --beside COMMAND...
       compare --from FILE [--check] [--svg FILE] [--document FILE]...

  --quick            500 services, few changes
  --mode MODE        proxy mode of both: nftables (default), iptables or ipvs
  --sizes N,N        how many services (default 1000,10000; in mode iptables 3000,10000)
  --variant VARIANT  legacy or nft: only this one of the iptables tools (default both)
  --check            exit with 1 if a claim does not hold
  --json FILE        write every number there
  --svg FILE         draw the size that the claims are about there
  --document FILE    write the table between the markers of this file
  --from FILE        measure nothing; take the numbers from a file that --json wrote
  --beside COMMAND...  measure nothing; run COMMAND, which starts a virtual machine, beside a control plane with the
                     services of the first size; this program measures on that one in there
  --logs FOLDER      keep the log of every kube-proxy there

Needs root, the tools of the mode (nft, iptables), and the folder of etcd, kube-apiserver and upstream's kube-proxy
in POINTSMAN_CONTROL_PLANE: scripts/compare sees to it. Everything happens in network namespaces of its own.
";

pub(crate) struct Arguments {
    pub(crate) scope: Scope,
    pub(crate) check: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) documents: Vec<PathBuf>,
    pub(crate) from: Option<PathBuf>,
    pub(crate) beside: Option<Vec<String>>,
}

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) mode: Mode,
    pub(crate) cases: Vec<Case>,
    /// Changes made one after the other.
    pub(crate) changes: usize,
    /// How long changes keep coming at a fixed rate.
    pub(crate) churn: Duration,
    pub(crate) idle: Duration,
    pub(crate) logs: Option<PathBuf>,
}

/// What was said about the scope.
#[derive(Default)]
struct Wanted {
    quick: bool,
    mode: Option<Mode>,
    sizes: Option<Vec<u32>>,
    variant: Option<ToolVariant>,
    logs: Option<PathBuf>,
}

impl Wanted {
    fn scope(self) -> Scope {
        let mode = self.mode.unwrap_or(Mode::Nftables);
        // The variants make twice as many cases, so each gets less time.
        let (sizes, changes, churn, idle) = match mode {
            _ if self.quick => (vec![500], 10, 4, 3),
            Mode::Nftables => (vec![1_000, 10_000], 40, 15, 10),
            Mode::Iptables => (vec![3_000, 10_000], 16, 10, 6),
            // Usually emulated, where each change takes the apiserver ten times as long.
            Mode::Ipvs => (vec![1_000], 10, 4, 6),
        };
        let sizes = self.sizes.unwrap_or(sizes);
        let variants = self.variant.map_or(ToolVariant::BOTH.to_vec(), |variant| vec![variant]);
        Scope {
            mode,
            cases: Case::all(mode, &sizes, &variants),
            changes,
            churn: Duration::from_secs(churn),
            idle: Duration::from_secs(idle),
            logs: self.logs,
        }
    }
}

/// `None` asks for the help.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, Failure> {
    let mut wanted = Wanted::default();
    let (mut check, mut json, mut svg, mut documents, mut from) = (false, None, None, Vec::new(), None);
    let mut beside = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => wanted.quick = true,
            "--mode" => wanted.mode = Some(Mode::parse(&value()?)?),
            "--sizes" => wanted.sizes = Some(sizes(&value()?)?),
            "--variant" => wanted.variant = Some(ToolVariant::parse(&value()?)?),
            "--check" => check = true,
            "--json" => json = Some(value()?.into()),
            "--svg" => svg = Some(value()?.into()),
            "--document" => documents.push(value()?.into()),
            "--from" => from = Some(value()?.into()),
            "--beside" => beside = Some(words.by_ref().collect()),
            "--logs" => wanted.logs = Some(value()?.into()),
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument {word:?}; try --help").into()),
        }
    }
    Ok(Some(Arguments { scope: wanted.scope(), check, json, svg, documents, from, beside }))
}

/// In growing order: objects are only ever added.
fn sizes(text: &str) -> Result<Vec<u32>, Failure> {
    let mut sizes = text.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    sizes.sort_unstable();
    match sizes.last() {
        Some(most) if *most <= crate::objects::MOST => Ok(sizes),
        _ => Err(format!("--sizes: {text:?}: at most {} services", crate::objects::MOST).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(words: &str) -> Vec<Case> {
        let arguments = parse(words.split_whitespace().map(str::to_owned)).unwrap().unwrap();
        arguments.scope.cases
    }

    #[test]
    fn the_order_of_the_words_does_not_matter() {
        assert_eq!(cases("--quick --mode iptables"), cases("--mode iptables --quick"));
        assert_eq!(cases("--mode iptables --variant nft --sizes 7,3").len(), 2);
        assert_eq!(cases("").last().map(|case| case.services), Some(10_000));
    }
}
