//! Events about the same thing are one Event object with a count. Pure; who writes them is [`super::events`].

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use super::events::Event;

/// A repetition after a longer silence is a new story.
const FINISHED: Duration = Duration::from_secs(6 * 60);
/// Counts that go on growing are written this often.
const REFRESH: Duration = Duration::from_secs(60);

/// What there is to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    Create { name: String, event: Event, at: SystemTime },
    Count { name: String, event: Event, count: u32, at: SystemTime },
}

impl Writing {
    /// Of the Event object.
    pub(super) fn name(&self) -> &str {
        match self {
            Writing::Create { name, .. } | Writing::Count { name, .. } => name,
        }
    }
}

/// The stories under way.
#[derive(Debug, Default)]
pub(super) struct Series {
    stories: HashMap<Event, Story>,
}

#[derive(Debug)]
struct Story {
    name: String,
    count: u32,
    last: SystemTime,
    written: SystemTime,
    /// What the object says.
    written_count: u32,
}

impl Series {
    /// The first is created, the second makes a series of it, the rest is only counted for now.
    pub(super) fn observe(&mut self, event: Event, now: SystemTime) -> Option<Writing> {
        self.stories.retain(|_, story| !story.is_finished(now));
        // The note is not part of the key: the same trouble in other words is still the same trouble.
        let key = Event { note: String::new(), ..event.clone() };
        if let Some(story) = self.stories.get_mut(&key) {
            story.count += 1;
            story.last = now;
            return (story.written_count == 1).then(|| story.write(event, now));
        }
        let nanos = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{}.{nanos:x}", event.regarding.name());
        let story = Story { name: name.clone(), count: 1, last: now, written: now, written_count: 1 };
        self.stories.insert(key, story);
        Some(Writing::Create { name, event, at: now })
    }

    /// Counts that are due, e.g. after some time.
    pub(super) fn due(&mut self, now: SystemTime) -> Vec<Writing> {
        let stories = self.stories.iter_mut();
        let due = stories.filter(|(_, story)| {
            let age = now.duration_since(story.written).unwrap_or_default();
            story.count > story.written_count && age >= REFRESH
        });
        due.map(|(key, story)| story.write(key.clone(), story.last)).collect()
    }

    /// When [`due`](Series::due) may have something next.
    pub(super) fn next_due(&self) -> Option<SystemTime> {
        let open = self.stories.values().filter(|story| story.count > story.written_count);
        open.map(|story| story.written + REFRESH).min()
    }

    /// The server has forgotten the object: the next one begins a new story.
    pub(super) fn forget(&mut self, name: &str) {
        self.stories.retain(|_, story| story.name != name);
    }
}

impl Story {
    fn is_finished(&self, now: SystemTime) -> bool {
        now.duration_since(self.last).unwrap_or_default() >= FINISHED
    }

    fn write(&mut self, event: Event, at: SystemTime) -> Writing {
        (self.written, self.written_count) = (at, self.count);
        Writing::Count { name: self.name.clone(), event, count: self.count, at }
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::Regarding;
    use super::*;

    fn event(note: &str) -> Event {
        Event {
            regarding: Regarding::Node("n1".into()),
            reason: "Sad",
            action: "Try",
            is_warning: true,
            note: note.into(),
        }
    }

    #[test]
    fn repetitions_are_counted_and_written_now_and_then() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut series = Series::default();
        let Some(Writing::Create { name, .. }) = series.observe(event("a"), start) else {
            panic!("not created")
        };
        assert!(name.starts_with("n1."));
        assert_eq!(series.next_due(), None);
        let second = series.observe(event("b"), after(5));
        assert!(matches!(second, Some(Writing::Count { count: 2, .. })), "{second:?}");
        assert_eq!(series.observe(event("c"), after(10)), None);
        assert_eq!(series.observe(event("c"), after(15)), None);
        assert_eq!(series.next_due(), Some(after(5) + REFRESH));
        assert!(series.due(after(20)).is_empty());
        let due = series.due(after(5) + REFRESH);
        assert!(matches!(&due[..], [Writing::Count { count: 4, at, .. }] if *at == after(15)), "{due:?}");
        assert!(series.due(after(100)).is_empty());
        let late = series.observe(event("d"), after(15) + FINISHED);
        assert!(matches!(late, Some(Writing::Create { .. })), "{late:?}");
    }

    #[test]
    fn another_reason_starts_its_own_series_and_a_forgotten_one_starts_over() {
        let now = SystemTime::UNIX_EPOCH;
        let mut series = Series::default();
        let Some(Writing::Create { name, .. }) = series.observe(event("a"), now) else {
            panic!("not created")
        };
        let other = Event { reason: "Glad", ..event("a") };
        assert!(matches!(series.observe(other, now), Some(Writing::Create { .. })));
        series.forget(&name);
        assert!(matches!(series.observe(event("a"), now), Some(Writing::Create { .. })));
    }
}
