//! Scripts: sections of lines, each carried out wholly or not at all.

use kernel::iptables::Table;

use super::commands::{self, Context};
use super::parse::Grammar;
use super::state::TableState;
use super::{Fault, Simulator, graph};

/// Where a script stopped, and why. Sections before it are carried out.
pub(super) struct Stop {
    /// From 1.
    pub(super) line: usize,
    pub(super) said: String,
}

pub(super) fn run(simulator: &mut Simulator, script: &str, fault: Option<Fault>) -> Result<(), Stop> {
    let mut open: Option<TableState> = None;
    let mut lines = 0;
    for (number, line) in script.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        lines = number;
        let stop = |said: String| Stop { line: number, said };
        if fault == Some(Fault::AtLine(number)) {
            return Err(stop("made to fail".to_owned()));
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        open = match open.take() {
            None => Some(begin(simulator, line).map_err(stop)?),
            Some(state) if line == "COMMIT" => {
                if fault == Some(Fault::AtCommit(state.table)) {
                    return Err(stop("made to fail".to_owned()));
                }
                graph::check(&state).map_err(stop)?;
                simulator.commit(state);
                None
            }
            Some(mut state) => {
                commands::run(&mut state, line, &context(simulator)).map_err(stop)?;
                Some(state)
            }
        };
    }
    match open {
        None => Ok(()),
        Some(_) => Err(Stop { line: lines + 1, said: "COMMIT expected".to_owned() }),
    }
}

fn begin(simulator: &Simulator, line: &str) -> Result<TableState, String> {
    let name = line.strip_prefix('*').ok_or_else(|| format!("a table was expected, not `{line}`"))?;
    let table = Table::BOTH.into_iter().find(|table| table.name() == name);
    Ok(simulator.table(table.ok_or_else(|| format!("unknown table `{name}`"))?).clone())
}

fn context(simulator: &Simulator) -> Context<'_> {
    let grammar = Grammar { is_ipv6: simulator.is_ipv6, random_fully: simulator.random_fully };
    Context { grammar, accounts: &simulator.accounts }
}
