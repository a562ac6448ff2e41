//! What a setting can hold, and how flags and fields are read into it. Addresses, choices and the parts of
//! logging have files of their own.

use std::time::Duration;

use super::node::Node;
use super::refusal::Refusal;
use crate::duration;

/// A setting's value. A refused text leaves it as it was.
pub trait Value {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal>;
    fn read_field(&mut self, node: &Node) -> Result<(), Refusal>;
    /// As the file holds it.
    fn show(&self) -> Node;
    /// Words that it can be made of, for completions; none where they cannot be listed.
    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// How a scalar is written in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Number,
    Text,
}

/// A value that is one word, read alike from a flag and from a field.
pub(super) trait Scalar: Sized {
    const KIND: Kind;
    fn parse(text: &str) -> Result<Self, String>;
    fn show(&self) -> Node;
    fn words() -> Vec<&'static str> {
        Vec::new()
    }
    /// What an error asks for instead of a value of another kind, if that says more than the kind.
    fn wanted() -> Option<String> {
        None
    }
}

impl<T: Scalar> Value for T {
    fn read_flag(&mut self, text: &str) -> Result<(), Refusal> {
        *self = T::parse(text)?;
        Ok(())
    }

    fn read_field(&mut self, node: &Node) -> Result<(), Refusal> {
        *self = match (T::KIND, node) {
            (Kind::Bool, Node::Bool(value)) => T::parse(if *value { "true" } else { "false" })?,
            (Kind::Number, Node::Number(text)) | (Kind::Text, Node::Text(text)) => T::parse(text)?,
            (kind, other) => {
                let wanted = T::wanted().map(|wanted| format!("must be {wanted}, not {}", other.describe()));
                return Err(wanted.unwrap_or_else(|| mismatch(kind, other)).into());
            }
        };
        Ok(())
    }

    fn show(&self) -> Node {
        Scalar::show(self)
    }

    fn words(&self) -> Vec<&'static str> {
        T::words()
    }
}

pub(super) fn mismatch(kind: Kind, node: &Node) -> String {
    let given = node.describe();
    match (kind, node) {
        (Kind::Bool, _) => format!("must be true or false, not {given}"),
        (Kind::Number, Node::Text(_)) => format!("must be a number without quotes, not {given}"),
        (Kind::Number, _) => format!("must be a number, not {given}"),
        (Kind::Text, Node::Number(_) | Node::Bool(_)) => {
            format!("must be text, not {given}; put it in quotes if it is text")
        }
        (Kind::Text, _) => format!("must be text, not {given}"),
    }
}

impl Scalar for bool {
    const KIND: Kind = Kind::Bool;

    fn parse(text: &str) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => Ok(true),
            "false" | "f" | "0" => Ok(false),
            _ => Err(format!("{text:?} is neither true nor false")),
        }
    }

    fn show(&self) -> Node {
        Node::Bool(*self)
    }

    fn words() -> Vec<&'static str> {
        vec!["true", "false"]
    }
}

impl Scalar for String {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }

    fn show(&self) -> Node {
        Node::text(self)
    }
}

/// A whole number within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const LEAST: i32, const MOST: i32>(pub i32);

impl<const LEAST: i32, const MOST: i32> Scalar for Whole<LEAST, MOST> {
    const KIND: Kind = Kind::Number;

    fn parse(text: &str) -> Result<Self, String> {
        let value = integer(text).filter(|value| (LEAST.into()..=MOST.into()).contains(value));
        let value = value.and_then(|value| i32::try_from(value).ok());
        let wanted = || match (LEAST, MOST) {
            (i32::MIN, i32::MAX) => "a whole number".to_owned(),
            (least, i32::MAX) => format!("a whole number, {least} or more"),
            (least, most) => format!("a whole number from {least} to {most}"),
        };
        value.map(Self).ok_or_else(|| format!("must be {}, not {text}", wanted()))
    }

    fn show(&self) -> Node {
        Node::Number(self.0.to_string())
    }
}

/// Whether Go reads the text as a number, of any size.
pub(crate) fn is_number(text: &str) -> bool {
    integer(text).is_some() || text.parse::<f32>().is_ok()
}

/// An integer as Go reads flags: decimal, or with 0x, 0o, 0b or 0 in front.
fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o").or_else(|| lower.strip_prefix('0')) {
        (8, digits)
    } else {
        (10, lower.as_str())
    };
    match digits {
        "" => (lower == "0").then_some(0),
        digits if digits.starts_with(['+', '-']) => None,
        digits => i64::from_str_radix(digits, radix).ok().map(|value| if negative { -value } else { value }),
    }
}

/// A rate a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f32);

impl Scalar for Rate {
    const KIND: Kind = Kind::Number;

    fn parse(text: &str) -> Result<Rate, String> {
        let value = text.parse().ok().filter(|value: &f32| value.is_finite());
        value.map(Rate).ok_or_else(|| format!("must be a number such as 5 or 0.5, not {text}"))
    }

    fn show(&self) -> Node {
        Node::Number(self.0.to_string())
    }
}

const A_DURATION: &str = "a duration such as 30s";

/// A duration that may be zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Scalar for Span {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Span, String> {
        duration::parse(text).map(Span)
    }

    fn show(&self) -> Node {
        Node::text(duration::format(self.0))
    }

    fn wanted() -> Option<String> {
        Some(A_DURATION.into())
    }
}

/// A duration longer than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

impl Scalar for Period {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Period, String> {
        match duration::parse(text)? {
            Duration::ZERO => Err(format!("must be greater than 0, not {text}")),
            value => Ok(Period(value)),
        }
    }

    fn show(&self) -> Node {
        Node::text(duration::format(self.0))
    }

    fn wanted() -> Option<String> {
        Some(A_DURATION.into())
    }
}
