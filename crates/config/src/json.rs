//! A document as JSON, on one line or indented as the API writes it for people.

use serde_json::{Number, Value};

use super::configuration::Configuration;
use super::node::Node;
use super::yaml::document;

/// A configuration on one line, as `/configz` serves it.
pub(crate) fn to_json(configuration: &Configuration) -> String {
    line(&Node::Map(document(configuration)))
}

/// On one line.
pub fn line(node: &Node) -> String {
    Value::from(node).to_string()
}

/// With a line for every item, indented by two spaces each level.
pub fn indented(node: &Node) -> String {
    format!("{:#}", Value::from(node))
}

impl From<&Node> for Value {
    fn from(node: &Node) -> Value {
        match node {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Number(text) => {
                text.parse().map_or_else(|_| Value::from(text.as_str()), |number: Number| number.into())
            }
            Node::Text(text) => Value::from(text.as_str()),
            Node::List(items) => items.iter().map(Value::from).collect(),
            Node::Map(fields) => {
                fields.iter().map(|(name, node)| (name.clone(), Value::from(node))).collect()
            }
        }
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
        assert_eq!(line(&node), r#"{"l":["a\"\n",1,null],"none":{}}"#);
        let wanted = "{\n  \"l\": [\n    \"a\\\"\\n\",\n    1,\n    null\n  ],\n  \"none\": {}\n}";
        assert_eq!(indented(&node), wanted);
    }

    #[test]
    fn numbers_stay_numbers() {
        for (text, wanted) in
            [("-999", "-999"), ("10.5", "10.5"), ("18446744073709551615", "18446744073709551615")]
        {
            assert_eq!(line(&Node::Number(text.into())), wanted);
        }
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
