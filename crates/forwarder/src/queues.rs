//! Queues of places in a slab, from which any place can leave at once. A place is in one queue of its links at a time.

const NONE: u32 = u32::MAX;

/// What stands before and after each place.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<[u32; 2]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { first: NONE, last: NONE }
    }
}

impl Queue {
    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

impl Links {
    pub(crate) fn push(&mut self, queue: &mut Queue, place: u32) {
        if self.0.len() <= place as usize {
            self.0.resize(place as usize + 1, [NONE; 2]);
        }
        self.join(queue, queue.last, place);
        self.join(queue, place, NONE);
    }

    /// It must be in this queue.
    pub(crate) fn remove(&mut self, queue: &mut Queue, place: u32) {
        let Some([before, after]) = self.0.get(place as usize).copied() else { return };
        self.join(queue, before, after);
    }

    /// Let one follow the other; none stands for an end.
    fn join(&mut self, queue: &mut Queue, before: u32, after: u32) {
        match self.0.get_mut(before as usize) {
            Some([_, next]) => *next = after,
            None => queue.first = after,
        }
        match self.0.get_mut(after as usize) {
            Some([previous, _]) => *previous = before,
            None => queue.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In order, and back.
    fn all(links: &Links, queue: Queue) -> Vec<u32> {
        let mut forth: Vec<u32> = Vec::new();
        let mut at = queue.first;
        while let Some([_, next]) = links.0.get(at as usize) {
            forth.push(at);
            at = *next;
        }
        let mut back: Vec<u32> = Vec::new();
        let mut at = queue.last;
        while let Some([previous, _]) = links.0.get(at as usize) {
            back.insert(0, at);
            at = *previous;
        }
        assert_eq!(forth, back);
        forth
    }

    #[test]
    fn any_place_can_leave() {
        let (mut links, mut queue, mut other) = (Links::default(), Queue::default(), Queue::default());
        assert_eq!(queue.first(), None);
        for place in [3, 0, 7, 1] {
            links.push(&mut queue, place);
        }
        links.push(&mut other, 5);
        assert_eq!((all(&links, queue), queue.first()), (vec![3, 0, 7, 1], Some(3)));
        links.remove(&mut queue, 7);
        assert_eq!(all(&links, queue), [3, 0, 1]);
        links.remove(&mut queue, 3);
        links.push(&mut queue, 3);
        assert_eq!(all(&links, queue), [0, 1, 3]);
        for place in [3, 0, 1] {
            links.remove(&mut queue, place);
        }
        assert_eq!((queue, all(&links, other)), (Queue::default(), vec![5]));
    }
}
