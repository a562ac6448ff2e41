//! One element of one set: the only thing a service owns in the kernel.

use std::cmp::Ordering;
use std::rc::Rc;

use super::bytes::Fields;
use super::class::Class;
use super::pinning::Pinning;
use super::sets::SetName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) set: SetName,
    pub(crate) key: Fields,
    pub(crate) data: Data,
    /// `namespace/name:port`, printed beside the element; on those a human looks for first. Of an element that
    /// leads to a counter, the counter's name.
    pub(crate) label: Option<Rc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    None,
    /// An endpoint's address and port.
    Endpoint(Fields),
    Goto(Class),
    /// The chain that records who went where.
    Pin(Pinning),
    /// The counter that the label names.
    Counter,
}

impl Element {
    /// Where it stands; no set holds two elements of one place.
    pub(crate) fn place(&self) -> (SetName, &Fields) {
        (self.set, &self.key)
    }

    pub(crate) fn order(&self, other: &Element) -> Ordering {
        self.place().cmp(&other.place())
    }
}
