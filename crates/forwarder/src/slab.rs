//! Places for connections and flows: a place is used again, with another age.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    /// The age of a place that is new.
    newest: u16,
}

#[derive(Debug)]
struct Place<T> {
    age: u16,
    held: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new(), newest: 0 }
    }

    /// Returns where it stands and how often the place was used.
    pub(crate) fn insert(&mut self, value: T) -> (u32, u16) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { age: self.newest, held: None });
            // No more places than descriptors.
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let Some(place) = self.places.get_mut(index as usize) else { return (index, 0) };
        place.held = Some(value);
        (index, place.age)
    }

    pub(crate) fn get(&self, index: u32, age: u16) -> Option<&T> {
        self.at(index).filter(|(found, _)| *found == age).map(|(_, held)| held)
    }

    /// What stands there now, and how often the place was used.
    pub(crate) fn at(&self, index: u32) -> Option<(u16, &T)> {
        let place = self.places.get(index as usize)?;
        Some((place.age, place.held.as_ref()?))
    }

    pub(crate) fn get_mut(&mut self, index: u32, age: u16) -> Option<&mut T> {
        let place = self.places.get_mut(index as usize).filter(|place| place.age == age);
        place.and_then(|place| place.held.as_mut())
    }

    pub(crate) fn remove(&mut self, index: u32, age: u16) -> Option<T> {
        let place = self.places.get_mut(index as usize).filter(|place| place.age == age)?;
        let held = place.held.take()?;
        place.age = place.age.wrapping_add(1);
        self.free.push(index);
        if self.free.len() == self.places.len() {
            // A crowd that is gone leaves no memory behind.
            let oldest = self.places.iter().map(|place| place.age).max().unwrap_or_default();
            *self = Slab { newest: oldest.wrapping_add(1), ..Slab::new() };
        }
        Some(held)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, u16, &mut T)> {
        let places = self.places.iter_mut().enumerate();
        places.filter_map(|(index, place)| Some((index as u32, place.age, place.held.as_mut()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u16, &T)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(index, place)| Some((index as u32, place.age, place.held.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_has_another_age() {
        let mut slab = Slab::new();
        let (first, age) = slab.insert('a');
        slab.insert('b');
        assert_eq!(slab.remove(first, age), Some('a'));
        assert_eq!(slab.remove(first, age), None);
        let (again, older) = slab.insert('c');
        assert_eq!((again, older), (first, age + 1));
        assert_eq!(slab.get_mut(first, age), None);
        assert_eq!(slab.get_mut(again, older), Some(&mut 'c'));
        assert_eq!(slab.iter().count(), 2);
    }
}
