//! One element of one set: the only thing a service owns in the kernel.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::bytes::Fields;
use crate::class::Class;
use crate::pinning::Pinning;
use crate::sets::SetName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub set: SetName,
    pub key: Fields,
    pub data: Data,
    /// `namespace/name:port`, printed beside the element; on those a human looks for first. Of an element that
    /// leads to a counter, the counter's name.
    pub label: Option<Rc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
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
    pub fn place(&self) -> (SetName, &Fields) {
        (self.set, &self.key)
    }

    pub fn order(&self, other: &Element) -> Ordering {
        self.place().cmp(&other.place())
    }
}
