//! From a recording to the messages of pprof. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::UNIX_EPOCH;

use super::collect::{Recording, Stack};
use super::proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use super::symbols::{self, Symbols};

/// Every address of a recording.
pub fn addresses(recording: &Recording) -> BTreeSet<usize> {
    recording.stacks.iter().flat_map(|stack| stack.frames.iter().copied()).collect()
}

/// Drop the allocator, vectors and maps from the inner end: what is asked for is who made them grow.
pub fn without_containers(mut recording: Recording, symbols: &Symbols) -> Recording {
    for stack in &mut recording.stacks {
        let inner = stack.frames.iter().take_while(|frame| is_container(symbols.name(**frame))).count();
        // A stack of nothing else is better than none.
        if inner < stack.frames.len() {
            stack.frames.drain(..inner);
        }
    }
    recording
}

fn is_container(name: &str) -> bool {
    const CRATES: [&str; 4] = ["alloc::", "hashbrown::", "kernel::profile::heap::", "__rust"];
    let name = name.trim_start_matches('<');
    CRATES.iter().any(|start| name.starts_with(start)) || name.contains(" as alloc::")
}

pub fn encode(recording: &Recording, symbols: &Symbols) -> Profile {
    let mut texts = Texts::default();
    texts.number("");
    let mut profile = Profile::default();
    let kind =
        |texts: &mut Texts, (name, unit)| ValueType { r#type: texts.number(name), unit: texts.number(unit) };
    profile.sample_type = recording.kinds.iter().map(|each| kind(&mut texts, *each)).collect();
    let (name, unit, period) = recording.period;
    profile.period_type = Some(kind(&mut texts, (name, unit)));
    profile.period = period;
    let first = recording.kinds.get(recording.first);
    profile.default_sample_type = first.map_or(0, |(name, _)| texts.number(name));
    let begun = recording.begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    profile.time_nanos = i64::try_from(begun.as_nanos()).unwrap_or_default();
    profile.duration_nanos = i64::try_from(recording.lasted.as_nanos()).unwrap_or_default();
    profile.comment = recording.comments.iter().map(|text| texts.number(text)).collect();
    profile.mapping = mappings(symbols, &mut texts);
    let mut functions = BTreeMap::new();
    for address in addresses(recording) {
        let name = symbols.name(address);
        let next = functions.len() as u64 + 1;
        let function_id = *functions.entry(name).or_insert(next);
        profile.location.push(Location {
            // As numbers that stand for themselves are large, and these are small: the order of the addresses.
            id: profile.location.len() as u64 + 1,
            mapping_id: symbols.object(address).map_or(0, |number| number as u64 + 1),
            address: address as u64,
            line: vec![Line { function_id }],
        });
    }
    for (name, id) in functions {
        profile.function.push(Function { id, name: texts.number(name) });
    }
    profile.sample = samples(recording, &profile.location, &mut texts);
    profile.string_table = texts.list;
    profile
}

fn mappings(symbols: &Symbols, texts: &mut Texts) -> Vec<Mapping> {
    let mapping = |(number, object): (usize, &kernel::profile::Object)| Mapping {
        id: number as u64 + 1,
        memory_start: object.code.start as u64,
        memory_limit: object.code.end as u64,
        file_offset: object.file_offset as u64,
        filename: texts.number(&symbols::path_of(object)),
        has_functions: true,
    };
    symbols.objects.iter().enumerate().map(mapping).collect()
}

fn samples(recording: &Recording, locations: &[Location], texts: &mut Texts) -> Vec<Sample> {
    let number = |frame: &usize| {
        let place = locations.binary_search_by_key(&(*frame as u64), |location| location.address);
        place.ok().and_then(|place| locations.get(place)).map(|location| location.id)
    };
    let sample = |stack: &Stack| Sample {
        location_id: stack.frames.iter().filter_map(number).collect(),
        value: stack.values.clone(),
        label: stack
            .thread
            .iter()
            .map(|thread| Label { key: texts.number("thread"), str: texts.number(thread) })
            .collect(),
    };
    recording.stacks.iter().map(sample).collect()
}

/// Each text once; elsewhere its number.
#[derive(Default)]
struct Texts {
    list: Vec<String>,
    numbers: BTreeMap<String, i64>,
}

impl Texts {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.list.len() as i64;
        self.list.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use std::time::{Duration, SystemTime};

    #[inline(never)]
    fn inner() -> usize {
        std::hint::black_box(1)
    }

    #[inline(never)]
    fn outer() -> usize {
        std::hint::black_box(inner() + 1)
    }

    fn recording(stacks: Vec<Stack>) -> Recording {
        Recording {
            is_memory: false,
            kinds: &[("samples", "count"), ("cpu", "nanoseconds")],
            first: 1,
            period: ("cpu", "nanoseconds", 10_000_000),
            begun: SystemTime::UNIX_EPOCH + Duration::from_secs(5),
            lasted: Duration::from_secs(2),
            stacks,
            comments: vec!["a comment".to_owned()],
        }
    }

    #[test]
    fn what_was_encoded_is_decoded_with_names() {
        outer();
        let (inside, around) = (inner as *const () as usize, outer as *const () as usize);
        let stack = |frames: &[usize], count| Stack {
            frames: frames.to_vec(),
            values: vec![count, count * 10_000_000],
            thread: Some("sync".to_owned()),
        };
        let recording = recording(vec![stack(&[inside, around], 3), stack(&[around], 1)]);
        let symbols = Symbols::find(kernel::profile::loaded_objects(), &addresses(&recording));
        let bytes = encode(&recording, &symbols).encode_to_vec();

        let profile = Profile::decode(bytes.as_slice()).unwrap();
        let text = |number: i64| profile.string_table[number as usize].as_str();
        assert_eq!(text(0), "");
        let named = |sample: &Sample| -> Vec<&str> {
            let location = |id: &u64| profile.location.iter().find(|location| location.id == *id).unwrap();
            let function = |id: u64| profile.function.iter().find(|function| function.id == id).unwrap();
            sample
                .location_id
                .iter()
                .map(|id| text(function(location(id).line[0].function_id).name))
                .collect()
        };
        let names: Vec<Vec<&str>> = profile.sample.iter().map(named).collect();
        let (inner, outer) =
            ("telemetry::profiling::profile::tests::inner", "telemetry::profiling::profile::tests::outer");
        assert_eq!(names, [vec![inner, outer], vec![outer]]);
        assert_eq!(profile.sample[0].value, [3, 30_000_000]);
        let label = profile.sample[0].label[0];
        assert_eq!((text(label.key), text(label.str)), ("thread", "sync"));
        let kinds: Vec<&str> = profile.sample_type.iter().map(|kind| text(kind.r#type)).collect();
        assert_eq!((kinds, text(profile.default_sample_type)), (vec!["samples", "cpu"], "cpu"));
        assert_eq!((profile.period, profile.time_nanos), (10_000_000, 5_000_000_000));
        assert_eq!(text(profile.comment[0]), "a comment");
        let mapping = profile.mapping.iter().find(|mapping| mapping.id == profile.location[0].mapping_id);
        assert!(
            mapping
                .is_some_and(|mapping| text(mapping.filename).contains("telemetry") && mapping.has_functions)
        );
    }

    #[test]
    fn containers_are_recognised() {
        for name in [
            "<alloc::raw_vec::RawVec<T,A>>::grow_one",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "hashbrown::raw::RawTableInner::new_uninitialized",
            "__rustc::__rust_alloc",
            "<kernel::profile::heap::SamplingAllocator as core::alloc::global::GlobalAlloc>::alloc",
        ] {
            assert!(is_container(name), "{name}");
        }
        assert!(!is_container("agent::sync::SyncLoop::run") && !is_container("std::io::default_read_to_end"));
    }
}
