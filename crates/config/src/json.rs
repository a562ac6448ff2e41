//! A document as JSON, on one line or indented as the API writes it for people.

use super::configuration::Configuration;
use super::node::Node;
use super::yaml::{document, quoted};

/// A configuration on one line, as `/configz` serves it.
pub fn to_json(configuration: &Configuration) -> String {
    line(&Node::Map(document(configuration)))
}

/// On one line.
pub fn line(node: &Node) -> String {
    let mut text = String::new();
    write(node, None, &mut text);
    text
}

/// With a line for every item, indented by two spaces each level.
pub fn indented(node: &Node) -> String {
    let mut text = String::new();
    write(node, Some(0), &mut text);
    text
}

/// `depth`: how far to indent, if at all.
fn write(node: &Node, depth: Option<usize>, text: &mut String) {
    match node {
        Node::Null => text.push_str("null"),
        Node::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Node::Number(number) => text.push_str(number),
        Node::Text(value) => text.push_str(&quoted(value)),
        Node::List(items) => write_all('[', ']', depth, text, items.iter().map(|item| (None, item))),
        Node::Map(fields) => {
            write_all('{', '}', depth, text, fields.iter().map(|(name, node)| (Some(name.as_str()), node)))
        }
    }
}

fn write_all<'a>(
    open: char,
    close: char,
    depth: Option<usize>,
    text: &mut String,
    items: impl Iterator<Item = (Option<&'a str>, &'a Node)>,
) {
    let inner = depth.map(|depth| depth + 1);
    text.push(open);
    let mut is_empty = true;
    for (name, node) in items {
        if !is_empty {
            text.push(',');
        }
        is_empty = false;
        break_line(inner, text);
        if let Some(name) = name {
            text.push_str(&quoted(name));
            text.push_str(if depth.is_some() { ": " } else { ":" });
        }
        write(node, inner, text);
    }
    if !is_empty {
        break_line(depth, text);
    }
    text.push(close);
}

fn break_line(depth: Option<usize>, text: &mut String) {
    if let Some(depth) = depth {
        text.push('\n');
        text.push_str(&"  ".repeat(depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn one_line_or_many() {
        let list = Node::List(vec![Node::text("a\"\n"), Node::Number("1".into()), Node::Null]);
        let none = Node::Map(BTreeMap::new());
        let node = Node::Map([("l".to_owned(), list), ("none".to_owned(), none)].into());
        assert_eq!(line(&node), r#"{"l":["a\"\u000a",1,null],"none":{}}"#);
        let wanted = "{\n  \"l\": [\n    \"a\\\"\\u000a\",\n    1,\n    null\n  ],\n  \"none\": {}\n}";
        assert_eq!(indented(&node), wanted);
    }

    /// Keys and kinds of values as the real one serves them under /configz.
    #[test]
    fn a_configuration_has_the_keys_of_upstream() {
        let text = to_json(&Configuration::default());
        for part in [
            "\"apiVersion\":\"kubeproxy.config.k8s.io/v1alpha1\"",
            "\"kind\":\"KubeProxyConfiguration\"",
            "\"clientConnection\":{\"acceptContentTypes\":\"\",\"burst\":10,",
            "\"nodePortAddresses\":null",
            "\"configSyncPeriod\":\"15m0s\"",
            "\"oomScoreAdj\":-999",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
