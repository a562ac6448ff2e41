//! Reads the text format 0.0.4 and refuses whatever a scraper might trip over.

use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct Families {
    names: Vec<String>,
    values: HashMap<String, f64>,
}

#[derive(Debug, Default)]
struct Current {
    name: String,
    kind: String,
}

impl Families {
    pub(super) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// By the whole series, as it is written.
    pub(super) fn value(&self, series: &str) -> Option<f64> {
        self.values.get(series).copied()
    }

    pub(super) fn parse(text: &str) -> Result<Families, String> {
        let mut families = Families::default();
        let mut current = Current::default();
        let mut helped = String::new();
        if !text.ends_with('\n') {
            return Err("the last line does not end".to_owned());
        }
        for line in text.lines() {
            let fail = |why: &str| Err(format!("{why}: {line}"));
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let Some((name, help)) = rest.split_once(' ') else { return fail("no help") };
                if help.trim().is_empty() {
                    return fail("empty help");
                }
                helped = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let Some((name, kind)) = rest.split_once(' ') else { return fail("no type") };
                if helped != name || families.names.iter().any(|known| known == name) {
                    return fail("a family without help, or a second time");
                }
                if !["counter", "gauge", "histogram"].contains(&kind) {
                    return fail("an unknown type");
                }
                families.names.push(name.to_owned());
                current = Current { name: name.to_owned(), kind: kind.to_owned() };
            } else {
                families.sample(line, &current).map_err(|why| format!("{why}: {line}"))?;
            }
        }
        families.check_histograms(text)?;
        Ok(families)
    }

    fn sample(&mut self, line: &str, current: &Current) -> Result<(), String> {
        let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
        let value: f64 = value.parse().map_err(|_| "no number")?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').ok_or("no closing brace")?),
            None => (series, ""),
        };
        let suffix = name.strip_prefix(current.name.as_str()).ok_or("a sample outside of its family")?;
        let fits = match &*current.kind {
            "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
            _ => suffix.is_empty(),
        };
        if !fits || !is_name(name) {
            return Err("a name that does not fit its family".to_owned());
        }
        check_labels(labels)?;
        match self.values.insert(series.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err("a series twice".to_owned()),
        }
    }

    /// Buckets only go up, and the last holds everything.
    fn check_histograms(&self, text: &str) -> Result<(), String> {
        let mut before: Option<(String, f64)> = None;
        for line in text.lines().filter(|line| line.contains("_bucket{")) {
            let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
            let (rest, _) = series.split_once("le=\"").ok_or("a bucket without le")?;
            let value: f64 = value.parse().map_err(|_| "no number")?;
            if before.as_ref().is_some_and(|(known, count)| known == rest && value < *count) {
                return Err(format!("fewer than in the bucket before: {line}"));
            }
            if series.contains("le=\"+Inf\"") {
                let total = rest.replace("_bucket{", "_count{").trim_end_matches(',').to_owned() + "}";
                let total = total.replace("{}", "");
                if self.value(&total) != Some(value) {
                    return Err(format!("not all of {total}: {line}"));
                }
            }
            before = Some((rest.to_owned(), value));
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn check_labels(text: &str) -> Result<(), String> {
    let (mut rest, mut seen) = (text, HashSet::new());
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(name) || !seen.insert(name.to_owned()) {
            return Err(format!("the label {name}"));
        }
        let end = closing_quote(behind).ok_or("an open quote")?;
        rest = behind.get(end + 1..).unwrap_or_default();
        if !rest.is_empty() {
            rest = rest.strip_prefix(',').filter(|rest| !rest.is_empty()).ok_or("no comma between labels")?;
        }
    }
    Ok(())
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return Some(at),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}
