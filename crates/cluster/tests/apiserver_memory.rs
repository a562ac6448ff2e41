//! What a list of 50,000 services takes while it is read. Alone in its process, for the allocator counts all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "shared with the other tests of the apiserver source, which use all of it")]

#[path = "apiserver/log.rs"]
mod log;
#[path = "apiserver/observed.rs"]
mod observed;
#[path = "apiserver/server.rs"]
mod server;
#[path = "apiserver/source.rs"]
mod source;
#[path = "apiserver/spell.rs"]
mod spell;

use cluster::apiserver::Encoding;
use peak_alloc::PeakAlloc;
use prost::bytes::Bytes;
use serde_json::Value;

use server::{Answer, End};
use source::follow;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const SERVICES: u32 = 50_000;
const PIECE: usize = 16 << 10;
/// Beside the state itself and the answer, which the test's server holds.
const MOST_BYTES: usize = 2_000_000;

fn services() -> Vec<Value> {
    let service = |number: u32| {
        let ip = std::net::Ipv4Addr::from_bits(0x0a60_0000 + number);
        let mut object = spell::service(&format!("service-{number}"), &ip.to_string(), number + 1);
        // What the proxy does not read is most of what comes.
        object["metadata"]["labels"] = serde_json::json!({"padding": "x".repeat(400)});
        object
    };
    (0..SERVICES).map(service).collect()
}

/// In pieces as a network would bring them.
fn in_pieces(encoding: Encoding, body: &Bytes, end: End) -> Answer {
    let pieces = (0..body.len()).step_by(PIECE).map(|at| body.slice(at..body.len().min(at + PIECE)));
    Answer::ok(encoding, Vec::new(), end).in_chunks(pieces)
}

#[test]
fn a_large_list_is_read_in_little_memory() {
    let encoding = Encoding::Protobuf;
    let objects = services();
    let stream: Bytes = spell::stream(encoding, 60_000, &objects).into();
    let list: Bytes = spell::list(encoding, 60_000, "", &objects).into();
    drop(objects);
    println!("{SERVICES} services are {} bytes of protobuf", list.len());
    let pages = vec![Answer::refusal(422, "Invalid"), in_pieces(encoding, &list, End::Proper)];
    let streamed = vec![in_pieces(encoding, &stream, End::Silence)];
    for (name, answers) in [("pages", pages), ("stream", streamed)] {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let source = follow(encoding, answers);
        let seen = source.wait(name, |seen| seen.state.is_complete());
        assert_eq!(seen.state.counts().services, SERVICES as usize);
        let peak = ALLOCATOR.peak_usage().saturating_sub(before);
        let after = ALLOCATOR.current_usage().saturating_sub(before);
        println!("{name}: {peak} bytes at most, {after} at the end");
        assert!(after > 0 && peak - after <= MOST_BYTES, "{name}: {peak} bytes at most, {after} at the end");
    }
}
