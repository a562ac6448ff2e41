//! A page of metrics as what a dashboard depends on: names, types, labels, buckets.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetricFamily {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
    /// Upper bounds as they are written, of a histogram.
    pub(crate) bounds: BTreeSet<String>,
}

pub(crate) type Families = BTreeMap<String, MetricFamily>;

pub(crate) fn parse(page: &str) -> Families {
    let mut families = Families::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') && !line.is_empty() {
            sample(&mut families, line);
        }
    }
    families
}

fn sample(families: &mut Families, line: &str) {
    let name = line.split(['{', ' ']).next().unwrap();
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
        let base = name.strip_suffix(suffix)?;
        families.contains_key(base).then_some(base)
    });
    let family = families.get_mut(base.unwrap_or(name)).unwrap_or_else(|| panic!("no type before {line}"));
    for (label, value) in labels(line.strip_prefix(name).unwrap()) {
        match label.as_str() {
            "le" => family.bounds.insert(value),
            "quantile" => false,
            _ => family.labels.insert(label),
        };
    }
}

/// `{a="b",c="d"} 1`; a value may hold anything but a bare quote.
fn labels(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = match text.strip_prefix('{') {
        Some(rest) => rest,
        None => return found,
    };
    while let Some((label, behind)) = rest.split_once("=\"") {
        let mut end = 0;
        let bytes = behind.as_bytes();
        while bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        found.push((label.trim_start_matches(',').to_owned(), behind[..end].to_owned()));
        rest = &behind[end + 1..];
        if rest.starts_with('}') {
            break;
        }
    }
    found
}
