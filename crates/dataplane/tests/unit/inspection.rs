//! Unit tests of `inspection`.

use super::*;

#[test]
fn differences_beyond_the_first_are_counted() {
    let mut total = Inspection::default();
    for _ in 0..2 {
        let mut one = Inspection::default();
        (0..800).for_each(|_| one.compare(String::new, Some("rules".to_owned()), None));
        total.add(one);
    }
    let found = (total.compared, total.difference_count, total.differences.len());
    assert_eq!(found, (1600, 1600, MOST_DIFFERENCES));
}
