//! Values that many endpoints share, kept once and counted, so that gone node names leave no trace.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A handle to an interned value. Its holder owns one count and must give it back with [`Interner::release`].
pub(crate) type Id = NonZeroU32;

#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized + Eq + Hash> {
    ids: HashMap<Arc<T>, Id>,
    slots: Vec<Slot<T>>,
    free: Vec<Id>,
}

#[derive(Debug)]
struct Slot<T: ?Sized> {
    value: Option<Arc<T>>,
    holders: u32,
}

impl<T: ?Sized + Eq + Hash> Default for Interner<T> {
    fn default() -> Self {
        Interner { ids: HashMap::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The id of a value, one holder more. `make` builds the shared copy if the value is new.
    ///
    /// `None` only if four billion values are live at once.
    pub(crate) fn acquire(&mut self, value: &T, make: impl FnOnce() -> Arc<T>) -> Option<Id> {
        if let Some(id) = self.ids.get(value).copied() {
            let slot = self.slots.get_mut(position(id))?;
            slot.holders = slot.holders.checked_add(1)?;
            return Some(id);
        }
        let shared = make();
        let slot = Slot { value: Some(shared.clone()), holders: 1 };
        let id = match self.free.pop() {
            Some(id) => {
                *self.slots.get_mut(position(id))? = slot;
                id
            }
            None => {
                self.slots.push(slot);
                Id::new(u32::try_from(self.slots.len()).ok()?)?
            }
        };
        self.ids.insert(shared, id);
        Some(id)
    }

    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        self.slots.get(position(id))?.value.as_deref()
    }

    pub(crate) fn release(&mut self, id: Id) {
        let Some(slot) = self.slots.get_mut(position(id)) else { return };
        slot.holders = slot.holders.saturating_sub(1);
        if slot.holders == 0
            && let Some(value) = slot.value.take()
        {
            self.ids.remove(&value);
            self.free.push(id);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

fn position(id: Id) -> usize {
    id.get() as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(names: &mut Interner<str>, name: &str) -> Id {
        names.acquire(name, || name.into()).unwrap()
    }

    #[test]
    fn equal_values_share_an_id_until_the_last_holder_goes() {
        let mut names = Interner::default();
        let a = acquire(&mut names, "a");
        assert_eq!(acquire(&mut names, "a"), a);
        let b = acquire(&mut names, "b");
        assert_ne!(a, b);
        names.release(a);
        assert_eq!(names.get(a), Some("a"));
        names.release(a);
        assert_eq!(names.get(a), None);
        assert_eq!(names.get(b), Some("b"));
        assert_eq!(names.len(), 1);
    }

    #[test]
    fn slots_are_used_again() {
        let mut names = Interner::default();
        for round in 0..1_000 {
            let id = acquire(&mut names, &format!("node-{round}"));
            names.release(id);
        }
        assert_eq!(names.slots.len(), 1);
    }
}
