//! Unit tests of `iptables/watch`.

use super::*;

const MILLI: Duration = Duration::from_millis(1);

fn stamp(number: u64) -> Option<Stamp> {
    Some(Stamp([number, 0, 0, 0]))
}

fn rewrite(watch: &mut Watch, to: u64, now: Instant) {
    watch.before_writing(stamp(to - 1));
    watch.rewritten(stamp(to), 1, now);
}

#[test]
fn what_others_did_during_a_write_is_looked_for_soon() {
    let start = Instant::now();
    let sizes = |bytes| Some(Stamp([1, bytes, 1, bytes]));
    for [before, after] in [[stamp(1), stamp(4)], [sizes(10), sizes(30)]] {
        let mut watch = Watch::new(start);
        watch.looked(before, true, start - 2_000 * MILLI, start);
        watch.before_writing(before);
        watch.rewritten(after, 2, start);
        assert!(watch.wants_look(after, start + PAUSE), "a third commit was not ours, or nothing tells");
        watch.looked(before, true, start, start);
        watch.before_writing(before);
        watch.written(after, 1);
        assert_eq!(watch.wants_look(after, start + PAUSE), before == stamp(1), "sizes do not tell");
    }
}

#[test]
fn nobody_else_wrote() {
    let start = Instant::now();
    let mut watch = Watch::new(start);
    rewrite(&mut watch, 1, start);
    watch.before_writing(stamp(1));
    watch.written(stamp(2), 1);
    assert!(!watch.wants_look(stamp(2), start + 59_000 * MILLI));
    assert!(watch.wants_look(stamp(2), start + ANYWAY), "sometimes it looks all the same");
    assert!(watch.wants_look(None, start + PAUSE), "without a stamp nothing is known");
}

#[test]
fn what_others_wrote_is_looked_at_soon_and_not_too_often() {
    let start = Instant::now();
    let mut watch = Watch::new(start);
    rewrite(&mut watch, 1, start);
    assert!(!watch.wants_look(stamp(2), start + 499 * MILLI));
    assert!(watch.wants_look(stamp(2), start + PAUSE));
    let looked = start + 600 * MILLI;
    watch.looked(stamp(2), true, looked - 100 * MILLI, looked);
    assert!(!watch.wants_look(stamp(2), looked + PAUSE), "it was harmless");
    assert!(!watch.wants_look(stamp(3), looked + 1899 * MILLI));
    assert!(watch.wants_look(stamp(3), looked + 1900 * MILLI));
}

#[test]
fn a_write_of_the_other_family_is_no_news() {
    let start = Instant::now();
    let mut watch = Watch::new(start);
    rewrite(&mut watch, 1, start);
    watch.advance(stamp(1), stamp(2), 1);
    assert!(!watch.wants_look(stamp(2), start + PAUSE));
    watch.advance(stamp(3), stamp(4), 1);
    assert!(watch.wants_look(stamp(4), start + PAUSE), "somebody else made it 3");
    rewrite(&mut watch, 4, start);
    watch.advance(stamp(4), stamp(7), 2);
    assert!(watch.wants_look(stamp(7), start + PAUSE), "somebody else wrote meanwhile");
}

#[test]
fn a_write_of_ours_hides_none_of_theirs() {
    let start = Instant::now();
    let mut watch = Watch::new(start);
    rewrite(&mut watch, 1, start);
    watch.before_writing(stamp(2));
    watch.written(stamp(3), 1);
    assert!(watch.wants_look(stamp(3), start + PAUSE));
    rewrite(&mut watch, 4, start);
    assert!(!watch.wants_look(stamp(4), start + PAUSE), "everything was rewritten");
}
