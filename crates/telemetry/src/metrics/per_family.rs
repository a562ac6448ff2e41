//! One of something for each IP family, and the words by which metrics name them.

use model::Family;

#[derive(Clone, Debug)]
pub struct PerFamily<T>([T; 2]);

impl<T> PerFamily<T> {
    pub(super) fn new(make: impl FnMut(Family) -> T) -> PerFamily<T> {
        PerFamily(Family::BOTH.map(make))
    }

    pub fn of(&self, family: Family) -> &T {
        &self.0[family.index()]
    }
}

/// The value of the label `ip_family`.
pub(super) fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}
