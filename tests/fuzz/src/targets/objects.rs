//! Objects as the apiserver sends them, alone and framed in watches and lists, in both encodings.

use cluster::apiserver::{Encoding, fuzz};
use cluster::{ClusterState, Kind};

use super::{Target, spell};
use crate::Limits;
use crate::choices::Choices;

/// A message of two bytes becomes a struct of some hundred, in a list that doubles when it is full.
const LIMITS: Limits = Limits { fixed: 256 << 10, per_byte: 2048 };

pub(super) const PROTOBUF_OBJECT: Target = Target {
    name: "protobuf_object",
    run: |input| object(Encoding::Protobuf, input),
    limits: LIMITS,
    seeds: || spell::objects(Encoding::Protobuf),
    dictionary: spell::VALUES,
    longest: 4096,
};

pub(super) const JSON_OBJECT: Target = Target {
    name: "json_object",
    run: |input| object(Encoding::Json, input),
    limits: LIMITS,
    seeds: || spell::objects(Encoding::Json),
    dictionary: spell::WORDS,
    longest: 4096,
};

pub(super) const PROTOBUF_WATCH: Target = Target {
    name: "protobuf_watch",
    run: |input| watch(Encoding::Protobuf, input),
    limits: LIMITS,
    seeds: || spell::watches(Encoding::Protobuf),
    dictionary: spell::VALUES,
    longest: 4096,
};

pub(super) const JSON_WATCH: Target = Target {
    name: "json_watch",
    run: |input| watch(Encoding::Json, input),
    limits: LIMITS,
    seeds: || spell::watches(Encoding::Json),
    dictionary: spell::WORDS,
    longest: 4096,
};

pub(super) const PROTOBUF_LIST: Target = Target {
    name: "protobuf_list",
    run: |input| list(Encoding::Protobuf, input),
    limits: LIMITS,
    seeds: || spell::lists(Encoding::Protobuf),
    dictionary: spell::VALUES,
    longest: 4096,
};

pub(super) const JSON_LIST: Target = Target {
    name: "json_list",
    run: |input| list(Encoding::Json, input),
    limits: LIMITS,
    seeds: || spell::lists(Encoding::Json),
    dictionary: spell::WORDS,
    longest: 4096,
};

/// The first byte says of which kind the rest is.
fn object(encoding: Encoding, input: &[u8]) {
    let mut choices = Choices::new(input);
    let kind = choices.pick(&Kind::ALL);
    take_in(kind, encoding, choices.remainder());
}

fn take_in(kind: Kind, encoding: Encoding, object: &[u8]) {
    let Some(change) = fuzz::object(kind, encoding, object) else { return };
    let mut state = ClusterState::default();
    state.change(change.clone());
    let services: Vec<_> = state.services().cloned().collect();
    services.iter().for_each(|service| drop(state.slices(service)));
    state.change(change);
}

/// How a body is cut: the kind of its objects, some lengths that repeat, then the body itself.
fn cut(input: &[u8]) -> (Kind, [usize; 3], &[u8]) {
    let mut choices = Choices::new(input);
    let kind = choices.pick(&Kind::ALL);
    let lengths = [(); 3].map(|()| 1 + choices.below(64));
    (kind, lengths, choices.remainder())
}

fn chunks(mut rest: &[u8], lengths: [usize; 3]) -> impl Iterator<Item = &[u8]> {
    let mut lengths = lengths.into_iter().cycle();
    std::iter::from_fn(move || {
        let (chunk, behind) = rest.split_at(lengths.next()?.min(rest.len()));
        rest = behind;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// However it is cut, the same events come out.
fn watch(encoding: Encoding, input: &[u8]) {
    let (kind, lengths, body) = cut(input);
    let whole = fuzz::watch(encoding, std::iter::once(body));
    assert_eq!(fuzz::watch(encoding, chunks(body, lengths)), whole, "in chunks of {lengths:?}");
    assert_eq!(fuzz::watch(encoding, chunks(body, [1; 3])), whole, "byte by byte");
    whole.0.iter().for_each(|(_, object)| take_in(kind, encoding, object));
}

fn list(encoding: Encoding, input: &[u8]) {
    let (kind, lengths, body) = cut(input);
    let whole = fuzz::list(encoding, std::iter::once(body));
    assert_eq!(fuzz::list(encoding, chunks(body, lengths)), whole, "in chunks of {lengths:?}");
    assert_eq!(fuzz::list(encoding, chunks(body, [1; 3])), whole, "byte by byte");
    whole.0.iter().for_each(|object| take_in(kind, encoding, object));
}
