//! The `logging` part of the configuration.

use std::time::Duration;

use super::choice::LogFormat;
use super::node::Node;
use super::refusal::{Refusal, each};
use super::value::{Kind, Period, Scalar, Value, Whole};

/// A level of detail.
pub(super) type Level = Whole<0, { i32::MAX }>;

#[derive(Clone, Debug, PartialEq)]
pub struct Logging {
    pub format: LogFormat,
    pub flush_frequency: FlushFrequency,
    pub verbosity: Level,
    pub vmodule: Modules,
    pub text: Stream,
    pub json: Stream,
}

impl Default for Logging {
    fn default() -> Logging {
        Logging {
            format: LogFormat::Text,
            flush_frequency: FlushFrequency(Duration::from_secs(5)),
            verbosity: Whole(0),
            vmodule: Modules::default(),
            text: Stream::default(),
            json: Stream::default(),
        }
    }
}

/// How the lines of one format are routed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    pub split: bool,
    pub info_buffer_size: Quantity,
}

/// A duration, or in a file also a number of nanoseconds: kubeadm writes it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushFrequency(pub Duration);

impl Value for FlushFrequency {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        self.0 = Period::parse(text)?.0;
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        match node {
            Node::Text(text) => self.read_flag(text),
            Node::Number(text) => {
                let nanoseconds = text.parse().ok().filter(|value| *value > 0);
                let nanoseconds =
                    nanoseconds.ok_or_else(|| format!("must be a duration such as 5s, not {text}"))?;
                self.0 = Duration::from_nanos(nanoseconds);
                Ok(())
            }
            other => Err(format!("must be a duration such as 5s, not {}", other.describe()).into()),
        }
    }

    fn show(&self) -> Node {
        Node::text(crate::duration::format(self.0))
    }
}

/// Levels of single source files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules(pub Vec<(String, u32)>);

impl Modules {
    fn read(pattern: &str, level: &str) -> Result<(String, u32), String> {
        if pattern.is_empty() || pattern.contains(['=', ',']) {
            return Err(format!("{pattern:?} is not the name of a source file (* and ? are allowed)"));
        }
        let level = Level::parse(level).map_err(|problem| format!("the level of {pattern} {problem}"))?;
        Ok((pattern.to_owned(), level.0.unsigned_abs()))
    }

    fn read_item(item: &Node) -> Result<(String, u32), String> {
        let wrong = || "must be a mapping with filePattern and verbosity".to_owned();
        let Node::Map(fields) = item else { return Err(wrong()) };
        match (fields.get("filePattern"), fields.get("verbosity")) {
            (Some(Node::Text(pattern)), Some(Node::Number(level))) => Modules::read(pattern, level),
            _ => Err(wrong()),
        }
    }
}

impl Value for Modules {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        let items = text.split(',').filter(|item| !item.is_empty());
        self.0.extend(each(self.0.len(), items, |item| {
            let (pattern, level) =
                item.split_once('=').ok_or_else(|| format!("{item:?} is not of the form file=LEVEL"))?;
            Modules::read(pattern, level)
        })?);
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        let Node::List(items) = node else {
            return Err(format!("must be a list, not {}", node.describe()).into());
        };
        self.0 = each(0, items, Modules::read_item)?;
        Ok(())
    }

    fn show(&self) -> Node {
        let item = |(pattern, level): &(String, u32)| {
            let fields =
                [("filePattern", Node::text(pattern)), ("verbosity", Node::Number(level.to_string()))];
            Node::Map(fields.map(|(name, value)| (name.to_owned(), value)).into())
        };
        Node::List(self.0.iter().map(item).collect())
    }
}

/// A number of bytes, as Kubernetes writes quantities: 512, 1k, 2Ki.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    pub bytes: u64,
    text: String,
}

impl Default for Quantity {
    fn default() -> Quantity {
        Quantity { bytes: 0, text: "0".into() }
    }
}

impl Scalar for Quantity {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Quantity, String> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let scale: Option<u64> = match suffix {
            "" => Some(1),
            "k" => Some(1000),
            "M" => Some(1_000_000),
            "G" => Some(1_000_000_000),
            "Ki" => Some(1 << 10),
            "Mi" => Some(1 << 20),
            "Gi" => Some(1 << 30),
            _ => None,
        };
        let bytes =
            number.parse::<u64>().ok().zip(scale).and_then(|(number, scale)| number.checked_mul(scale));
        let wrong = || format!("{text:?} is not a number of bytes such as 512, 1k or 2Ki");
        bytes.map(|bytes| Quantity { bytes, text: text.to_owned() }).ok_or_else(wrong)
    }

    fn show(&self) -> Node {
        Node::text(&self.text)
    }
}
