//! YAML into any type, within limits that no honest manifest meets.

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Options};

use super::decode::Fault;
use crate::fault_path::path_to_fault;
use crate::objects::Header;

/// Text bounds what a document may hold, since a file's size is capped; only aliases make more out of less.
pub(super) fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: 100_000_000,
            max_nodes: 100_000_000,
            max_total_scalar_bytes: 256 * 1024 * 1024,
            max_depth: 64,
            max_aliases: 10_000,
            max_anchors: 10_000,
            max_recorded_anchor_events: 20_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 16,
        },
    }
}

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let mut path = None;
        let again = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |source| {
            path = path_to_fault::<T>(source);
            Ok(())
        });
        drop(again);
        fault(&error, path)
    })
}

pub(super) fn fault(error: &Error, path: Option<String>) -> Fault {
    let error = error.without_snippet();
    let position =
        error.location().map(|location| (location.line(), location.column())).filter(|(line, _)| *line > 0);
    let text = error.to_string();
    let message = match error {
        Error::InvalidScalar { ty: "i64", .. } => "must be a whole number",
        _ => text.lines().next().unwrap_or("cannot be read"),
    };
    Fault { position, field: path.filter(|path| path != "."), ..Fault::new(message) }
}

/// The kind of a document written the usual way, without parsing it: this halves the time to load.
///
/// In a block mapping whatever stands in the first column is a key of the document itself. Anything in the
/// least unusual (quotes, comments, the key twice) is left to the parser.
pub(super) fn glimpse(text: &str) -> Option<Header> {
    let mut api_version = None;
    let mut kind = None;
    for line in text.lines() {
        let (found, value) = if let Some(value) = line.strip_prefix("kind:") {
            (&mut kind, value)
        } else if let Some(value) = line.strip_prefix("apiVersion:") {
            (&mut api_version, value)
        } else {
            continue;
        };
        let value = value.strip_prefix(' ')?.trim();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-');
        if found.is_some() || value.is_empty() || !value.bytes().all(plain) {
            return None;
        }
        *found = Some(value.to_owned());
    }
    Some(Header { api_version: api_version?, kind: kind?, ..Header::default() })
}
