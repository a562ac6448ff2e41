//! Results of runs, kept until all contestants have had their turn, and the document that shows them.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::proxy::Mode;
use crate::suite::{Fate, Fates, count};

const BEGIN: &str = "<!-- e2e -->\n";
const END: &str = "<!-- end of e2e -->";

/// Whose rules the tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    Ours,
    Upstream,
}

impl Contestant {
    pub const ALL: [Contestant; 2] = [Contestant::Ours, Contestant::Upstream];

    pub fn word(self) -> &'static str {
        match self {
            Contestant::Ours => "ours",
            Contestant::Upstream => "upstream",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Contestant::Ours => "Pointsman",
            Contestant::Upstream => "upstream's kube-proxy",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub contestant: Contestant,
    pub mode: Mode,
    pub fates: Fates,
}

/// Where the log, the report and the result of a run are.
pub fn folder(root: &Path, contestant: Contestant, mode: Mode) -> PathBuf {
    root.join(format!("{mode}-{}", contestant.word()))
}

/// Below it, for the part of the suite that needs other nodes.
pub fn other_nodes(folder: &Path) -> PathBuf {
    folder.join("other-nodes")
}

pub fn save(folder: &Path, fates: &Fates) -> Result<(), String> {
    let entry = |(name, fate): (&String, &Fate)| {
        let value = match fate {
            Fate::Passed => json!({"state": "passed"}),
            Fate::Failed(why) => json!({"state": "failed", "why": why}),
            Fate::Skipped(why) => json!({"state": "skipped", "why": why}),
        };
        (name.clone(), value)
    };
    let object: Map<String, Value> = fates.iter().map(entry).collect();
    let path = folder.join("result.json");
    fs::write(&path, format!("{:#}\n", Value::from(object)))
        .map_err(|e| format!("writing {}: {e}", path.display()))
}

/// Remove what an earlier run left in `folder`: it must not be taken for what the next one found.
pub fn forget(folder: &Path) -> Result<(), String> {
    for folder in [folder.to_owned(), other_nodes(folder)] {
        for name in ["result.json", "report.json"] {
            let path = folder.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(format!("removing {}: {e}", path.display()));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// All results that there are.
pub fn load(root: &Path) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    for mode in Mode::ALL {
        for contestant in Contestant::ALL {
            let path = folder(root, contestant, mode).join("result.json");
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let object: Map<String, Value> =
                serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            let fates = object.into_iter().map(|(name, value)| (name, fate(&value))).collect();
            outcomes.push(Outcome { contestant, mode, fates });
        }
    }
    Ok(outcomes)
}

/// Which modes and proxies have no results.
pub fn missing(outcomes: &[Outcome]) -> Vec<String> {
    let all = Mode::ALL.iter().flat_map(|mode| Contestant::ALL.map(|contestant| (*mode, contestant)));
    all.filter(|(mode, contestant)| {
        !outcomes.iter().any(|outcome| outcome.mode == *mode && outcome.contestant == *contestant)
    })
    .map(|(mode, contestant)| format!("{} in mode {mode}", contestant.title()))
    .collect()
}

fn fate(value: &Value) -> Fate {
    let why = value["why"].as_str().unwrap_or_default().to_owned();
    match value["state"].as_str() {
        Some("passed") => Fate::Passed,
        Some("skipped") => Fate::Skipped(why),
        _ => Fate::Failed(why),
    }
}

/// Tests that upstream's passes and ours does not, each with its mode and reason. Without a run of upstream's: those that
/// ours fails.
pub fn differences(outcomes: &[Outcome]) -> Vec<String> {
    let mut found = Vec::new();
    for ours in outcomes.iter().filter(|outcome| outcome.contestant == Contestant::Ours) {
        let theirs =
            outcomes.iter().find(|other| other.contestant == Contestant::Upstream && other.mode == ours.mode);
        let measure = theirs.unwrap_or(ours);
        for (name, fate) in &measure.fates {
            let why = match ours.fates.get(name) {
                Some(Fate::Passed) => continue,
                Some(Fate::Failed(why)) => why.clone(),
                Some(Fate::Skipped(_)) if theirs.is_none() => continue,
                Some(Fate::Skipped(why)) => format!("skipped: {why}"),
                None => "not in the results".to_owned(),
            };
            if theirs.is_none() || *fate == Fate::Passed {
                found.push(format!("{}: {name}: {why}", ours.mode));
            }
        }
    }
    found
}

/// The table, then what failed and what was skipped.
pub fn page(outcomes: &[Outcome], about: &str) -> String {
    let mut text = String::from(
        "\n| mode | proxy | run | passed | failed | skipped |\n| --- | --- | ---: | ---: | ---: | ---: |\n",
    );
    for Outcome { contestant, mode, fates } in outcomes {
        let [passed, failed, skipped] = count(fates);
        let _ = writeln!(
            text,
            "| {mode} | {} | {} | {passed} | {failed} | {skipped} |",
            contestant.title(),
            passed + failed
        );
    }
    let _ = write!(text, "\n{about}\n\n### Failed\n\n");
    let mut lines = Vec::new();
    for Outcome { contestant, mode, fates } in outcomes {
        for (name, fate) in fates {
            if let Fate::Failed(why) = fate {
                lines.push(format!("- {mode}, {}: `{}`: {}", contestant.title(), short(name), plain(why)));
            }
        }
    }
    text += &if lines.is_empty() { "None.\n".to_owned() } else { lines.join("\n") + "\n" };
    text += "\n### Skipped\n\n| why | tests |\n| --- | --- |\n";
    text += &skipped(outcomes);
    text + "\n"
}

/// One line for each reason, with the names it holds for.
fn skipped(outcomes: &[Outcome]) -> String {
    let mut reasons: std::collections::BTreeMap<String, std::collections::BTreeSet<String>> =
        Default::default();
    for (name, fate) in outcomes.iter().flat_map(|outcome| &outcome.fates) {
        if let Fate::Skipped(why) = fate {
            let why = if why.is_empty() { "not in this run".to_owned() } else { plain(why) };
            reasons.entry(why).or_default().insert(short(name));
        }
    }
    let line = |(why, names): (&String, &std::collections::BTreeSet<String>)| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("| {why} | {} |\n", names.join(", "))
    };
    reasons.iter().map(line).collect()
}

/// Without the group that all have.
fn short(name: &str) -> String {
    plain(name.trim_start_matches("[sig-network] "))
}

/// Text that cannot be taken for markup, and of a length that a table bears.
fn plain(text: &str) -> String {
    let text: String =
        text.chars().map(|letter| if "|`<>\n".contains(letter) { ' ' } else { letter }).take(240).collect();
    text.trim().to_owned()
}

/// Put the page between the markers of the document.
pub fn fill(document: &Path, page: &str) -> Result<(), String> {
    let fail = |e: std::io::Error| format!("{}: {e}", document.display());
    let text = fs::read_to_string(document).map_err(fail)?;
    let filled = filled(&text, page).ok_or_else(|| format!("{}: no markers", document.display()))?;
    fs::write(document, filled).map_err(fail)
}

fn filled(text: &str, page: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{page}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(contestant: Contestant, fate: Fate) -> Outcome {
        let fates = [("[sig-network] Services a|b".to_owned(), fate)].into();
        Outcome { contestant, mode: Mode::Nftables, fates }
    }

    #[test]
    fn runs_that_are_missing_are_named() {
        let outcomes = [outcome(Contestant::Ours, Fate::Passed)];
        let missing = missing(&outcomes);
        assert_eq!(missing.len(), Mode::ALL.len() * Contestant::ALL.len() - 1, "{missing:?}");
        assert!(missing.contains(&"upstream's kube-proxy in mode nftables".to_owned()), "{missing:?}");
    }

    #[test]
    fn what_upstream_fails_too_is_no_difference() {
        let failed = || Fate::Failed("no answer".into());
        let ours = outcome(Contestant::Ours, failed());
        assert_eq!(differences(&[ours.clone(), outcome(Contestant::Upstream, failed())]), [""; 0]);
        let found = differences(&[ours.clone(), outcome(Contestant::Upstream, Fate::Passed)]);
        assert_eq!(found, ["nftables: [sig-network] Services a|b: no answer"]);
        // Alone, nothing excuses it.
        assert_eq!(differences(&[ours]).len(), 1);
    }

    #[test]
    fn what_ours_skips_or_lacks_is_a_difference_if_upstream_passes_it() {
        let upstream = outcome(Contestant::Upstream, Fate::Passed);
        let skipped = outcome(Contestant::Ours, Fate::Skipped("no IPv6".into()));
        let found = differences(&[skipped, upstream.clone()]);
        assert_eq!(found, ["nftables: [sig-network] Services a|b: skipped: no IPv6"]);
        let lost = Outcome { fates: Fates::new(), ..outcome(Contestant::Ours, Fate::Passed) };
        let found = differences(&[lost, upstream]);
        assert_eq!(found, ["nftables: [sig-network] Services a|b: not in the results"]);
        // Upstream's cannot run it either.
        let skipped = |who| outcome(who, Fate::Skipped("needs SSH".into()));
        let both = [skipped(Contestant::Ours), skipped(Contestant::Upstream)];
        assert_eq!(differences(&both), [""; 0]);
    }

    #[test]
    fn results_are_read_as_they_were_saved() {
        let root = std::env::temp_dir().join(format!("pointsman-results-{}", std::process::id()));
        let saved = outcome(Contestant::Ours, Fate::Skipped("six nodes".into()));
        let folder = folder(&root, saved.contestant, saved.mode);
        fs::create_dir_all(&folder).unwrap();
        save(&folder, &saved.fates).unwrap();
        let loaded = load(&root).unwrap();
        assert_eq!(loaded.len(), 1);
        assert_eq!(loaded[0].fates, saved.fates);
        assert!(page(&loaded, "x").contains("| six nodes | `Services a b` |"), "{}", page(&loaded, "x"));
        // Before the next run nothing of this one is left, and that there is nothing is no error.
        fs::create_dir_all(other_nodes(&folder)).unwrap();
        let report = other_nodes(&folder).join("report.json");
        fs::write(&report, "[]").unwrap();
        forget(&folder).unwrap();
        forget(&folder).unwrap();
        assert!(!report.exists() && load(&root).unwrap().is_empty());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let text = "# Head\n<!-- e2e -->\nold\n<!-- end of e2e -->\ntail\n";
        assert_eq!(filled(text, "new\n").unwrap(), text.replace("old", "new"));
        assert_eq!(filled("", "new"), None);
    }
}
