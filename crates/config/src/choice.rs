//! Settings that are one word of a few.

use model::{Mode, Scheduler};

use super::node::Node;
use super::value::{Kind, Scalar};
use crate::suggest::did_you_mean;

/// An enum and the words for it. The empty word, where it is one, stands for the default.
trait Choice: Copy + PartialEq + 'static {
    /// What the words are, for errors: "a proxy mode".
    const WHAT: &'static str;
    const WORDS: &'static [(&'static str, Self)];
    const EMPTY: Option<Self>;
}

impl<T: Choice> Scalar for T {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<T, String> {
        let found = T::WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let found = found.or(T::EMPTY.filter(|_| text.is_empty()));
        found.ok_or_else(|| {
            let meant = did_you_mean("", text, T::words().into_iter());
            format!("{text:?} is not {}; use {}{meant}", T::WHAT, any_of(&T::words()))
        })
    }

    fn show(&self) -> Node {
        let word = T::WORDS.iter().find(|(_, value)| value == self).map(|(word, _)| *word);
        Node::text(word.unwrap_or_default())
    }

    fn words() -> Vec<&'static str> {
        T::WORDS.iter().map(|(word, _)| *word).collect()
    }

    fn wanted() -> Option<String> {
        Some(any_of(&T::words()))
    }
}

fn any_of(words: &[&str]) -> String {
    let (last, others) = words.split_last().unwrap_or((&"", &[]));
    format!("{} or {last}", others.join(", "))
}

/// `None`: not set.
impl Choice for Option<Mode> {
    const WHAT: &'static str = "a proxy mode";
    const WORDS: &'static [(&'static str, Option<Mode>)] = &{
        let mut words = [("", None); Mode::ALL.len()];
        let mut index = 0;
        while index < words.len() {
            words[index] = (Mode::ALL[index].word(), Some(Mode::ALL[index]));
            index += 1;
        }
        words
    };
    const EMPTY: Option<Option<Mode>> = Some(None);
}

/// `None`: not set.
impl Choice for Option<Scheduler> {
    const WHAT: &'static str = "an IPVS scheduler";
    const WORDS: &'static [(&'static str, Option<Scheduler>)] = &{
        let mut words = [("", None); Scheduler::ALL.len()];
        let mut index = 0;
        while index < words.len() {
            words[index] = (Scheduler::ALL[index].name(), Some(Scheduler::ALL[index]));
            index += 1;
        }
        words
    };
    const EMPTY: Option<Option<Scheduler>> = Some(None);
}

/// How traffic of local pods is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalMode {
    ClusterCidr,
    NodeCidr,
    BridgeInterface,
    InterfaceNamePrefix,
}

impl Choice for LocalMode {
    const WHAT: &'static str = "a way to detect local traffic";
    const WORDS: &'static [(&'static str, LocalMode)] = &[
        ("ClusterCIDR", LocalMode::ClusterCidr),
        ("NodeCIDR", LocalMode::NodeCidr),
        ("BridgeInterface", LocalMode::BridgeInterface),
        ("InterfaceNamePrefix", LocalMode::InterfaceNamePrefix),
    ];
    const EMPTY: Option<LocalMode> = Some(LocalMode::ClusterCidr);
}

/// How the apiserver is asked to write objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    Protobuf,
    Json,
}

impl Choice for ContentType {
    const WHAT: &'static str = "a content type";
    const WORDS: &'static [(&'static str, ContentType)] = &[
        ("application/vnd.kubernetes.protobuf", ContentType::Protobuf),
        ("application/json", ContentType::Json),
    ];
    const EMPTY: Option<ContentType> = Some(ContentType::Protobuf);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Choice for LogFormat {
    const WHAT: &'static str = "a log format";
    const WORDS: &'static [(&'static str, LogFormat)] =
        &[("text", LogFormat::Text), ("json", LogFormat::Json)];
    const EMPTY: Option<LogFormat> = None;
}
