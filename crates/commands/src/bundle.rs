//! `kube-proxy bundle`: one archive for a bug report. The agent, which has the rights, reads; this writes the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cluster::timestamp::format_micros;
use serde_json::{Value, json};

use crate::archive::Archive;
use crate::arguments::Arguments;
use crate::paths::{FACTS, LOG, RULESET, SERVICES};
use crate::{GOOD, Outcome, client, complain, print};

pub(super) const USAGE: &str = "\
Write one archive for a bug report: version, configuration without secrets, services, the rules in the kernel, metrics,
the last lines of the log, and facts about the kernel. Look through it before you publish it: it has the names and
addresses of services and endpoints.

Usage:
  kube-proxy bundle [FILE] [flags]         FILE may be - for standard output [pointsman-NODE-TIME.tar]

Flags:
  --force                          overwrite FILE
  --agent ADDRESS:PORT             where the agent serves its metrics; else as --config or
  --config FILE                    --metrics-bind-address of the agent say [127.0.0.1:10249]
  --metrics-bind-address ADDRESS

Exit code: 0 if the archive is written, 1 if not. What could not be read is named in problems.txt.
";

/// Text of all elements of all sets.
const MOST_ELEMENTS: usize = 64 << 20;
/// Services of the largest clusters, about 1 KB each.
const MOST_SERVICES: usize = 50_000;

pub(super) fn run(arguments: Arguments) -> Outcome {
    arguments.only(&["force"])?;
    let given = match arguments.words.as_slice() {
        [] => None,
        [file] => Some(file.as_str()),
        [_, extra, ..] => return Err(format!("one file, not {extra:?} too; see --help")),
    };
    let agent = arguments.agent()?;
    let is_stream = given == Some("-");
    if is_stream && io::stdout().is_terminal() {
        return Err("standard output is a terminal; redirect it or name a file".to_owned());
    }
    let path = given.filter(|_| !is_stream).map(PathBuf::from);
    // Before the agent is bothered.
    if let Some(path) = path.as_deref().filter(|path| !arguments.has("force") && path.exists()) {
        return Err(exists(path));
    }
    let facts = client::ask(agent, FACTS, &[])?;
    if is_stream {
        let written = collect(agent, &facts, BufWriter::new(io::stdout().lock()));
        return written.map(|()| GOOD).map_err(|error| format!("cannot write to standard output: {error}"));
    }
    let path = path.unwrap_or_else(|| PathBuf::from(usual_name(facts["node"].as_str().unwrap_or_default())));
    let file = open(&path, arguments.has("force"))?;
    if let Err(error) = collect(agent, &facts, BufWriter::new(file)) {
        // Half an archive helps nobody.
        let _ = fs::remove_file(&path);
        return Err(format!("cannot write {}: {error}", path.display()));
    }
    print(&format!("{}\n", path.display()))?;
    Ok(GOOD)
}

/// It has what not everybody on the machine needs to read.
pub(super) fn open(path: &Path, overwrites: bool) -> Result<File, String> {
    let mut how = OpenOptions::new();
    how.write(true).mode(0o600);
    match overwrites {
        true => how.create(true).truncate(true),
        false => how.create_new(true),
    };
    how.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => format!("cannot write {}: {error}", path.display()),
    })
}

fn exists(path: &Path) -> String {
    format!("{} exists; name another file, or overwrite it with --force", path.display())
}

/// `pointsman-node-1-20261118T050000Z.tar`
pub(super) fn usual_name(node: &str) -> String {
    let node: String =
        node.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).take(100).collect();
    let now = format_micros(SystemTime::now());
    let now: String =
        now.split('.').next().unwrap_or_default().chars().filter(|c| !"-:".contains(*c)).collect();
    format!("pointsman-{node}-{now}Z.tar")
}

/// Everything, piece by piece, so that only one is in memory.
fn collect(agent: SocketAddr, facts: &Value, to: impl Write) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut bundle = Bundle { archive: Archive::new(to, now), problems: Vec::new() };
    bundle.add("facts.json", &format!("{facts:#}\n"))?;
    for (name, path) in [
        ("configz.json", "/configz"),
        ("statusz.txt", "/statusz"),
        ("metrics.txt", "/metrics"),
        ("log.txt", LOG),
    ] {
        let page = client::page(agent, path);
        bundle.add_if_read(name, page.map(|page| page.body))?;
    }
    let services = services(agent, &mut bundle.problems);
    bundle.add_if_read("services.json", services)?;
    match client::ask(agent, RULESET, &[]) {
        Ok(document) => bundle.add_rules(agent, document)?,
        Err(problem) => bundle.problems.push(format!("ruleset: {problem}")),
    }
    bundle.finish()
}

struct Bundle<W: Write> {
    archive: Archive<W>,
    problems: Vec<String>,
}

impl<W: Write> Bundle<W> {
    fn add(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.archive.add(&format!("pointsman-bundle/{name}"), text.as_bytes())
    }

    fn add_if_read(&mut self, name: &str, text: Result<String, String>) -> io::Result<()> {
        match text {
            Ok(text) => self.add(name, &text),
            Err(problem) => {
                self.problems.push(format!("{name}: {problem}"));
                Ok(())
            }
        }
    }

    fn add_rules(&mut self, agent: SocketAddr, mut document: Value) -> io::Result<()> {
        let problems = document["problems"].as_array_mut().map(std::mem::take).unwrap_or_default();
        self.problems
            .extend(problems.iter().filter_map(Value::as_str).map(|problem| format!("ruleset: {problem}")));
        if let Some(objects) = document["nftables"].as_array() {
            let text = with_elements(agent, objects, &mut self.problems);
            self.add("ruleset.json", &text)?;
        }
        if let Some(servers) = document.get("virtualServers") {
            self.add("virtual-servers.json", &format!("{servers:#}\n"))?;
        }
        let saved = document["saved"].as_object().cloned().unwrap_or_default();
        for (name, text) in &saved {
            self.add(&format!("{name}.txt"), text.as_str().unwrap_or_default())?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.problems.is_empty() {
            complain("bundle: something could not be read; see problems.txt in the archive");
            let text = self.problems.join("\n") + "\n";
            self.add("problems.txt", &text)?;
        }
        self.archive.finish().map(drop)
    }
}

/// As `nft -j list table` prints it: an object a line, with the elements in the sets.
fn with_elements(agent: SocketAddr, objects: &[Value], problems: &mut Vec<String>) -> String {
    let mut room = MOST_ELEMENTS;
    let mut lines = Vec::with_capacity(objects.len());
    for object in objects {
        let mut line = object.to_string();
        let set = ["set", "map"].into_iter().find_map(|kind| object.get(kind));
        if let Some(set) = set {
            let word = |key: &str| set[key].as_str().unwrap_or_default();
            let asked = [("family", word("family")), ("set", word("name"))];
            match client::text(agent, RULESET, &asked) {
                Ok((elements, is_truncated)) if elements.len() <= room => {
                    room -= elements.len();
                    if is_truncated {
                        problems
                            .push(format!("ruleset: {} {}: only the first elements", asked[0].1, asked[1].1));
                    }
                    // Empty sets have none.
                    if let (true, Some(head)) = (elements != "[]", line.strip_suffix("}}")) {
                        line = format!("{head},\"elem\":{elements}}}}}");
                    }
                }
                Ok(_) => problems.push(format!("ruleset: {} {}: too many elements", asked[0].1, asked[1].1)),
                Err(problem) => problems.push(format!("ruleset: {} {}: {problem}", asked[0].1, asked[1].1)),
            }
        }
        lines.push(line);
    }
    format!("{{\"nftables\": [\n{}\n]}}\n", lines.join(",\n"))
}

fn services(agent: SocketAddr, problems: &mut Vec<String>) -> Result<String, String> {
    let mut services: Vec<Value> = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let parameters: Vec<(&str, &str)> =
            next.as_deref().map(|next| ("continue", next)).into_iter().collect();
        let mut page = client::ask(agent, SERVICES, &parameters)?;
        services.extend(page["services"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["continue"].as_str() {
            Some(_) if services.len() >= MOST_SERVICES => {
                problems.push(format!("services.json: only the first {}", services.len()));
                break;
            }
            Some(last) => next = Some(last.to_owned()),
            None => break,
        }
    }
    Ok(format!("{:#}\n", json!({ "services": services })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_the_node_and_the_time() {
        let name = usual_name("../n1");
        assert!(name.starts_with("pointsman-..n1-20") && name.ends_with("Z.tar"), "{name}");
        assert!(!name.contains('/'), "{name}");
    }

    #[test]
    fn a_file_is_not_overwritten_by_accident() {
        let path = std::env::temp_dir().join(format!("pointsman-overwrite-{}", std::process::id()));
        drop(open(&path, false).unwrap());
        assert!(open(&path, false).unwrap_err().contains("--force"));
        drop(open(&path, true).unwrap());
        fs::remove_file(&path).unwrap();
        let nowhere = Path::new("/no/such/folder/file");
        assert!(open(nowhere, false).unwrap_err().starts_with("cannot write /no/such/folder/file: "));
    }
}
