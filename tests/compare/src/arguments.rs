//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;
use crate::contestant::Mode;

pub(crate) const HELP: &str = "\
usage: compare [--quick] [--mode MODE] [--sizes N,N] [--check] [--json FILE] [--svg FILE] [--document FILE]...
       compare --from FILE [--check] [--svg FILE] [--document FILE]...

  --quick            500 services, few changes
  --mode MODE        proxy mode of both: nftables (default)
  --sizes N,N        how many services (default 1000,10000)
  --check            exit with 1 if a claim does not hold
  --json FILE        write every number there
  --svg FILE         draw the last size there
  --document FILE    write the table between the markers of this file
  --from FILE        measure nothing; take the numbers from a file that --json wrote
  --logs FOLDER      keep the log of every kube-proxy there

Needs root, nft, and the folder of etcd, kube-apiserver and upstream's kube-proxy in POINTSMAN_CONTROL_PLANE:
scripts/compare sees to it. Everything happens in network namespaces of its own.
";

pub(crate) struct Arguments {
    pub(crate) scope: Scope,
    pub(crate) check: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) documents: Vec<PathBuf>,
    pub(crate) from: Option<PathBuf>,
}

/// What is measured, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) mode: Mode,
    pub(crate) sizes: Vec<u32>,
    /// Changes made one after the other.
    pub(crate) changes: usize,
    /// How long changes keep coming at a fixed rate.
    pub(crate) churn: Duration,
    pub(crate) idle: Duration,
    pub(crate) logs: Option<PathBuf>,
}

impl Scope {
    fn full() -> Scope {
        Scope {
            mode: Mode::Nftables,
            sizes: vec![1_000, 10_000],
            changes: 40,
            churn: Duration::from_secs(15),
            idle: Duration::from_secs(10),
            logs: None,
        }
    }

    fn quick(&mut self) {
        self.sizes = vec![500];
        self.changes = 10;
        self.churn = Duration::from_secs(4);
        self.idle = Duration::from_secs(3);
    }
}

/// `None` asks for the help.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, Failure> {
    let mut arguments = Arguments {
        scope: Scope::full(),
        check: false,
        json: None,
        svg: None,
        documents: Vec::new(),
        from: None,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => arguments.scope.quick(),
            "--mode" => arguments.scope.mode = Mode::parse(&value()?)?,
            "--sizes" => arguments.scope.sizes = sizes(&value()?)?,
            "--check" => arguments.check = true,
            "--json" => arguments.json = Some(value()?.into()),
            "--svg" => arguments.svg = Some(value()?.into()),
            "--document" => arguments.documents.push(value()?.into()),
            "--from" => arguments.from = Some(value()?.into()),
            "--logs" => arguments.scope.logs = Some(value()?.into()),
            "--help" | "-h" => return Ok(None),
            _ => return Err(format!("unknown argument {word:?}; try --help").into()),
        }
    }
    Ok(Some(arguments))
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
