//! One target under libFuzzer: `POINTSMAN_FUZZ_TARGET` names it, the arguments are libFuzzer's. See `scripts/fuzz`.
#![no_main]
#![allow(clippy::expect_used, reason = "a test program may fail loudly")]

use std::sync::LazyLock;

use fuzz::{Target, limits, targets};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("POINTSMAN_FUZZ_TARGET").expect("POINTSMAN_FUZZ_TARGET names no target");
    targets::find(&name).expect("no such target")
});

fuzz_target!(|input: &[u8]| limits::run(&TARGET, input));
