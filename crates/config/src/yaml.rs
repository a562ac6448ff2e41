//! A configuration as YAML, with the keys that Kubernetes' own kube-proxy writes, in its order.

use std::collections::BTreeMap;

use super::configuration::Configuration;
use super::node::Node;
use super::settings;

pub(super) const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
pub(super) const KIND: &str = "KubeProxyConfiguration";

pub(crate) fn to_yaml(configuration: &Configuration) -> String {
    let mut text = String::new();
    write_map(&document(configuration), 0, &mut text);
    text
}

/// Any document.
pub fn text(node: &Node) -> String {
    let mut text = String::new();
    match node {
        Node::Map(fields) => write_map(fields, 0, &mut text),
        other => text.push_str(&scalar(other)),
    }
    text
}

pub(super) fn document(configuration: &Configuration) -> BTreeMap<String, Node> {
    let mut configuration = configuration.clone();
    let mut document = BTreeMap::from([
        ("apiVersion".to_owned(), Node::text(API_VERSION)),
        ("kind".to_owned(), Node::text(KIND)),
    ]);
    for setting in settings::all() {
        let node = setting.value(&mut configuration).show();
        if !(setting.omit_default && node == setting.default()) {
            insert(&mut document, setting.path, node);
        }
    }
    document
}

fn insert(fields: &mut BTreeMap<String, Node>, path: &str, node: Node) {
    let Some((name, rest)) = path.split_once('.') else {
        fields.insert(path.to_owned(), node);
        return;
    };
    let section = fields.entry(name.to_owned()).or_insert_with(|| Node::Map(BTreeMap::new()));
    if let Node::Map(fields) = section {
        insert(fields, rest, node);
    }
}

fn write_map(fields: &BTreeMap<String, Node>, indent: usize, text: &mut String) {
    for (name, node) in fields {
        text.push_str(&format!("{:indent$}{name}:", ""));
        write_behind(node, indent, text);
    }
}

/// What follows a key.
fn write_behind(node: &Node, indent: usize, text: &mut String) {
    match node {
        Node::Map(fields) if !fields.is_empty() => {
            text.push('\n');
            write_map(fields, indent + 2, text);
        }
        Node::List(items) if !items.is_empty() => {
            text.push('\n');
            items.iter().for_each(|item| write_item(item, indent, text));
        }
        other => text.push_str(&format!(" {}\n", scalar(other))),
    }
}

fn write_item(item: &Node, indent: usize, text: &mut String) {
    let Node::Map(fields) = item else {
        text.push_str(&format!("{:indent$}- {}\n", "", scalar(item)));
        return;
    };
    let mut block = String::new();
    write_map(fields, indent + 2, &mut block);
    text.push_str(&format!("{:indent$}- {}", "", block.trim_start()));
}

fn scalar(node: &Node) -> String {
    match node {
        Node::Null => "null".into(),
        Node::Bool(value) => value.to_string(),
        Node::Number(text) => text.clone(),
        Node::Text(text) if is_plain(text) => text.clone(),
        Node::Text(text) => quoted(text),
        Node::List(_) => "[]".into(),
        Node::Map(_) => "{}".into(),
    }
}

/// Whether the text means itself without quotes. What looks like a number, a word of YAML or syntax does not.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 11] = ["null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    let is_harmless = |c: char| c.is_ascii_alphanumeric() || "/._-:,".contains(c);
    let looks_like_number = || {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_hexdigit() || "xob._-:".contains(c))
            && !text.contains('.')
            || text.parse::<f64>().is_ok()
    };
    let looks_like_date = || matches!(text.as_bytes(), [a, b, c, d, b'-', ..] if [a, b, c, d].iter().all(|c| c.is_ascii_digit()));
    starts_well
        && text.chars().all(is_harmless)
        && !text.ends_with(':')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
        && !looks_like_number()
        && !looks_like_date()
}

/// Whether it turns the direction of what follows: what is shown is then not what is there.
pub fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || turns_text(c) => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor_or_turns_the_text() {
        let hostile = "a\u{1b}[31m\u{9b}\n\u{202e}\u{2066}\u{61c}é\"";
        let wanted = "\"a\\u001b[31m\\u009b\\u000a\\u202e\\u2066\\u061cé\\\"\"";
        assert_eq!(text(&Node::text(hostile)), wanted);
    }
}
