//! Taking a profile: stacks and what was counted at each, still without names.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kernel::profile::cpu::{Denied, Sampler};
use kernel::profile::heap;

/// 100 samples for a second of processor time, as Go takes them.
const INTERVAL: Duration = Duration::from_millis(10);
/// How often samples are fetched.
const FETCH: Duration = Duration::from_millis(50);

/// A profile before its addresses are looked up.
#[derive(Debug)]
pub struct Recording {
    /// Of memory; otherwise of time.
    pub is_memory: bool,
    /// What the values of a stack are, with their units.
    pub kinds: &'static [(&'static str, &'static str)],
    /// Which of them to show first.
    pub first: usize,
    /// What lies between two samples: a quantity, its unit and how much.
    pub period: (&'static str, &'static str, i64),
    pub begun: SystemTime,
    pub lasted: Duration,
    pub stacks: Vec<Stack>,
    pub comments: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Stack {
    /// The innermost first.
    pub frames: Vec<usize>,
    pub values: Vec<i64>,
    pub thread: Option<String>,
}

/// Where processor time went in the next `length`. Dropping the future ends it at once.
pub async fn cpu(length: Duration) -> Result<Recording, Denied> {
    let mut sampler = Sampler::start(INTERVAL)?;
    let begun = SystemTime::now();
    let start = tokio::time::Instant::now();
    let mut counts: BTreeMap<(Vec<u8>, Vec<usize>), i64> = BTreeMap::new();
    while start.elapsed() < length {
        tokio::time::sleep(FETCH.min(length.saturating_sub(start.elapsed()))).await;
        sampler.drain(|sample| {
            *counts.entry((sample.thread.to_vec(), sample.frames.to_vec())).or_default() += 1;
        });
    }
    let lost = sampler.lost();
    drop(sampler);
    let lasted = start.elapsed();
    let each = i64::try_from(INTERVAL.as_nanos()).unwrap_or_default();
    let stack = |((thread, frames), count): ((Vec<u8>, Vec<usize>), i64)| Stack {
        frames,
        values: vec![count, count.saturating_mul(each)],
        thread: Some(String::from_utf8_lossy(&thread).into_owned()),
    };
    let comments =
        (lost > 0).then(|| format!("{lost} samples were lost: the event loop was too busy to fetch them"));
    Ok(Recording {
        is_memory: false,
        kinds: &[("samples", "count"), ("cpu", "nanoseconds")],
        first: 1,
        period: ("cpu", "nanoseconds", each),
        begun,
        lasted,
        stacks: counts.into_iter().map(stack).collect(),
        comments: comments.into_iter().collect(),
    })
}

/// Which view of the memory to show first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Live,
    Allocated,
}

/// Where memory was allocated, since sampling began.
pub fn memory(view: Memory) -> Recording {
    let stack = |site: heap::Site| Stack {
        values: [site.allocated.objects, site.allocated.bytes, site.live.objects, site.live.bytes]
            .map(|value| value.round() as i64)
            .to_vec(),
        frames: site.frames,
        thread: None,
    };
    Recording {
        is_memory: true,
        kinds: &[
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ],
        first: if view == Memory::Live { 3 } else { 1 },
        period: ("space", "bytes", heap::INTERVAL as i64),
        begun: SystemTime::now(),
        lasted: Duration::ZERO,
        stacks: heap::sites().into_iter().map(stack).collect(),
        comments: vec![
            "Of Rust's allocations since profiling was enabled, estimated from samples.".to_owned(),
        ],
    }
}
