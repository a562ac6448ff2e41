//! A configuration file into a [`Configuration`]: every wrong field is an error, every unknown one a warning.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_saphyr::{DuplicateKeyPolicy, Error};

use super::address::Endpoint;
use super::configuration::Configuration;
use super::node::Node;
use super::origin::Given;
use super::settings::{self, Setting};
use super::yaml::{API_VERSION, KIND};
use crate::suggest::did_you_mean;

/// A configuration file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
    /// The command line: a changed text is to be read beside the same flags.
    pub arguments: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    /// A field that cannot be read has its default here.
    pub(crate) configuration: Configuration,
    pub(crate) given: Given,
    pub(crate) warnings: Vec<String>,
    pub(crate) problems: Vec<String>,
}

/// Fails only if this is no configuration at all.
pub(crate) fn load(path: &Path, text: &str) -> Result<Loaded, String> {
    read(text).map_err(|problem| format!("{}: {problem}", path.display()))
}

pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    read_file(path).map_err(|error| format!("--config: {} cannot be read: {error}", path.display()))
}

/// As much as a ConfigMap may hold.
const LARGEST_FILE: u64 = 1 << 20;

/// The text of a configuration file.
pub fn read_file(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    // A pipe may wait for a writer forever, and can be read only once; a device may never end.
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if read as u64 > LARGEST_FILE {
        return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST_FILE >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

pub(super) fn read(text: &str) -> Result<Loaded, String> {
    let mut warnings = Vec::new();
    let document = parse(text, &mut warnings)?;
    let Node::Map(mut fields) = document else {
        let found = if document == Node::Null { "empty".into() } else { document.describe() };
        return Err(format!("is {found}; expected a {KIND}"));
    };
    check_header(&mut fields)?;
    let mut document = Node::Map(fields);
    let mut problems = Vec::new();
    let (configuration, given) = fill(&mut document, &mut problems);
    leftovers("", &document, &mut problems, &mut warnings);
    Ok(Loaded { configuration, given, warnings, problems })
}

/// A key that is there twice is worth a word, and then its last value counts.
fn parse(text: &str, warnings: &mut Vec<String>) -> Result<Node, String> {
    let with =
        |duplicate_keys| serde_saphyr::options! { with_snippet: false, duplicate_keys: duplicate_keys };
    let first = serde_saphyr::from_str_with_options(text, with(DuplicateKeyPolicy::Error));
    let outcome = match first.as_ref().map_err(Error::without_snippet) {
        Err(Error::DuplicateMappingKey { key, location }) => {
            let key = key.as_deref().unwrap_or("a field");
            warnings.push(format!("{key} is set again in line {}; the last value is used", location.line()));
            serde_saphyr::from_str_with_options(text, with(DuplicateKeyPolicy::LastWins))
        }
        _ => first,
    };
    outcome.map_err(|error| match error.without_snippet() {
        Error::MultipleDocuments { .. } => format!("contains several documents; keep only the {KIND}"),
        other => {
            let text = other.to_string();
            format!("cannot be read as YAML or JSON: {}", text.lines().next().unwrap_or_default())
        }
    })
}

fn check_header(fields: &mut BTreeMap<String, Node>) -> Result<(), String> {
    for (name, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match fields.remove(name) {
            Some(Node::Text(found)) if found == wanted => {}
            Some(Node::Null) | None => return Err(format!("{name} is missing; it must be {wanted}")),
            Some(other) => return Err(format!("{name} must be {wanted}, not {}", other.describe())),
        }
    }
    Ok(())
}

/// Move every known field out of the document.
fn fill(document: &mut Node, problems: &mut Vec<String>) -> (Configuration, Given) {
    let mut configuration = Configuration::default();
    let mut given = Given::new();
    for setting in settings::all() {
        let Some(node) = take(document, setting.path) else { continue };
        if node == Node::Null || (setting.zero_is_unset && node.is_zero()) {
            continue;
        }
        // kubeadm fills its ConfigMap with `false`: it was not requested.
        if !(node.is_zero() && node == setting.default()) {
            given.insert(setting.path);
        }
        if let Err(refusal) = setting.value(&mut configuration).read_field(&node) {
            problems.extend(refusal.lines(setting.path));
        }
    }
    default_addresses(&mut configuration, &given);
    (configuration, given)
}

/// A node of IPv6 serves on IPv6, if no address is set.
fn default_addresses(configuration: &mut Configuration, given: &Given) {
    if configuration.bind_address.is_ipv4() {
        return;
    }
    if !given.contains("healthzBindAddress") {
        configuration.healthz_bind_address = Endpoint::ANY_V6;
    }
    if !given.contains("metricsBindAddress") {
        configuration.metrics_bind_address = Endpoint::LOOPBACK_V6;
    }
}

fn take(node: &mut Node, path: &str) -> Option<Node> {
    let Node::Map(fields) = node else { return None };
    match path.split_once('.') {
        None => fields.remove(path),
        Some((name, rest)) => take(fields.get_mut(name)?, rest),
    }
}

/// What was not consumed.
fn leftovers(path: &str, node: &Node, problems: &mut Vec<String>, warnings: &mut Vec<String>) {
    let holds = |setting: &Setting| path.is_empty() || setting.path.starts_with(&format!("{path}."));
    let is_section = settings::all().any(holds);
    match node {
        Node::Map(fields) if is_section => {
            for (name, node) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leftovers(&path, node, problems, warnings);
            }
        }
        Node::Null if is_section => {}
        other if is_section => problems.push(format!("{path}: must be a mapping, not {}", other.describe())),
        _ => {
            let section = |path: &'static str| path.rsplit_once('.').map(|(section, _)| section);
            let known = settings::all().flat_map(|setting| [Some(setting.path), section(setting.path)]);
            let meant = did_you_mean("", path, known.flatten());
            warnings.push(format!("{path} is not a field of {KIND} and has no effect{meant}"));
        }
    }
}
