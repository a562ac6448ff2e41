//! Metadata that says nothing to a proxy.

use serde_json::{Value, json};
use test_support::Dice;
use test_support::protobuf::{RAW_FIELDS, raw_text};

/// The API allows 256 KiB of annotations together.
const LARGE: usize = 250_000;

/// Odd annotations and finalizers, or none.
pub(crate) fn adorn(dice: &mut Dice, object: &mut Value) {
    let metadata = &mut object["metadata"];
    match dice.below(12) {
        0 => metadata["annotations"]["example.com/large"] = "x".repeat(LARGE).into(),
        1 => metadata["annotations"]["example.com/unicode"] = "\u{0}\u{7f}\u{202e}🦀\u{fffd}".into(),
        2 => metadata["annotations"]["example.com/bytes"] = raw_text(&[0xff, 0xfe, 0x00, 0x80]).into(),
        3 => {
            for number in 0..200 {
                metadata["annotations"][format!("example.com/{number}")] = number.to_string().into();
            }
        }
        4 => metadata["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"] = trigger(dice),
        5 => metadata["annotations"]["service.kubernetes.io/topology-mode"] = "Auto".into(),
        6 => metadata["finalizers"] = json!(["example.com/hold"]),
        // An unknown field, and one that is there twice.
        7 => metadata[RAW_FIELDS] = raw_text(&[0xf8, 0x3f, 0x01, 0x9a, 0x3f, 0x02, 0xff, 0xfe]).into(),
        8 => metadata["ownerReferences"] = json!([]),
        _ => {}
    }
}

fn trigger(dice: &mut Dice) -> Value {
    let texts = [
        "",
        "yesterday",
        "9999-12-31T23:59:59.999999999Z",
        "0000-01-01T00:00:00Z",
        "2026-02-30T25:61:61Z",
        "2026-01-01T00:00:00+99:99",
    ];
    dice.pick(&texts).into()
}
