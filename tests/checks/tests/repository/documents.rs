//! Documents: links lead somewhere, and the layout is described as it is.

use std::collections::BTreeSet;
use std::path::Path;

use checks::files::{File, files};
use checks::markdown::{anchors, links};

fn documents() -> Vec<File> {
    files().into_iter().filter(|file| file.has_end(".md")).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        for link in links(&document.text).into_iter().filter(|link| !link.contains("://")) {
            if let Err(problem) = follow(&document, link) {
                broken.push(format!("{}: {link}: {problem}", document.path));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn follow(document: &File, link: &str) -> Result<(), String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = Path::new(&document.path).parent().unwrap_or(Path::new(""));
    let target = match path {
        "" => checks::root().join(&document.path),
        path => checks::root().join(folder).join(path),
    };
    if !target.exists() {
        return Err("no such file".into());
    }
    if anchor.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&target).map_err(|error| error.to_string())?;
    match anchors(&text).iter().any(|known| known == anchor) {
        true => Ok(()),
        false => Err(format!("no heading #{anchor}")),
    }
}

#[test]
fn the_readme_names_the_two_commands_first() {
    let readme = std::fs::read_to_string(checks::root().join("README.md")).unwrap();
    let top: String = readme.lines().take(25).collect::<Vec<_>>().join("\n");
    assert!(top.contains("make run") && top.contains("make test"), "{top}");
}

#[test]
fn every_document_is_reachable_from_the_readme() {
    let all = documents();
    let mut reached = vec!["README.md".to_owned()];
    let mut next = 0;
    while let Some(path) = reached.get(next).cloned() {
        next += 1;
        let Some(document) = all.iter().find(|document| document.path == path) else { continue };
        for link in links(&document.text) {
            let target = normal(&path, link.split('#').next().unwrap_or_default());
            if !reached.contains(&target) {
                reached.push(target);
            }
        }
    }
    let lost: Vec<_> =
        all.iter().map(|document| &document.path).filter(|path| !reached.contains(path)).collect();
    assert!(lost.is_empty(), "no link leads to {lost:?}");
}

/// The path of a link, seen from the root.
fn normal(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Names of sets and chains in the code stand in the document, so that every name in `nft list` is explained.
#[test]
fn the_layout_document_names_every_set_and_chain() {
    let read = |path: &str| std::fs::read_to_string(checks::root().join(path)).unwrap();
    let document = ["docs/nftables.md", "docs/ipvs.md"].map(read).concat();
    let code = ["sets.rs", "layout.rs", "ipvs_rules.rs"]
        .map(|name| read(&format!("crates/table/src/{name}")))
        .concat();
    let is_name = |text: &&str| {
        text.contains('-') && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let names: BTreeSet<&str> = code.split('"').skip(1).step_by(2).filter(is_name).collect();
    assert!(names.len() > 30, "only {names:?} found in the code");
    let unknown: Vec<_> = names.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
    assert!(unknown.is_empty(), "neither docs/nftables.md nor docs/ipvs.md explains {unknown:?}");
}

/// Commands in the documents use flags that exist.
#[test]
fn commands_in_documents_use_known_flags() {
    // Commands have flags of their own, which their source lists.
    let commands = files().into_iter().filter(|file| file.path.starts_with("crates/commands/src/"));
    let commands = commands.map(|file| file.text);
    let help = config::flags::help() + &commands.collect::<String>();
    let mut unknown = Vec::new();
    let mut seen = 0;
    for document in documents() {
        let blocks = document.text.split("```").skip(1).step_by(2);
        let joined: String = blocks.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
        for line in joined.lines() {
            // What Helm is told names the image, and the flags that follow are Helm's.
            let helm = line.trim_start().starts_with("helm ");
            let Some((_, arguments)) = line.split_once("kube-proxy ").filter(|_| !helm) else { continue };
            for word in arguments.split_whitespace().filter(|word| word.starts_with("--")) {
                let flag = word.split('=').next().unwrap_or(word);
                seen += 1;
                if !help.split(|c: char| c.is_whitespace() || c == ',' || c == '=').any(|known| known == flag)
                {
                    unknown.push(format!("{}: {flag}", document.path));
                }
            }
        }
    }
    assert!(seen > 0 && unknown.is_empty(), "not in the help of kube-proxy: {unknown:?}");
}
