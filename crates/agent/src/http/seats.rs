//! How many connections are open at a time, and which one goes when all seats are taken.
//!
//! Whoever opens connections and says nothing only ever takes the seats of others who say nothing: the one that was
//! quiet for longest goes first, and a probe that asks at once is answered long before it is its turn.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::task::AbortHandle;

/// Connections that one server, or all servers of a kind, hold open.
#[derive(Clone, Debug)]
pub(crate) struct Seats(Rc<RefCell<Table>>);

#[derive(Debug)]
struct Table {
    capacity: usize,
    /// Counts what happens, so that earlier is told from later.
    clock: u64,
    taken: BTreeMap<u64, Guest>,
}

#[derive(Debug)]
struct Guest {
    /// An answer is being made.
    is_busy: bool,
    /// When it last came, asked or was answered.
    heard: u64,
    task: Option<AbortHandle>,
}

/// A taken seat; free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    table: Seats,
}

impl Seats {
    pub(crate) fn new(capacity: usize) -> Seats {
        Seats(Rc::new(RefCell::new(Table { capacity, clock: 0, taken: BTreeMap::new() })))
    }

    /// Take a seat, from somebody else if need be.
    pub(super) fn take(&self) -> Seat {
        let mut table = self.0.borrow_mut();
        let leaving = table.make_room();
        let number = table.tick();
        table.taken.insert(number, Guest { is_busy: false, heard: number, task: None });
        drop(table);
        // A task that ends gives its seat back, hence after the table is free.
        leaving.into_iter().for_each(|task| task.abort());
        Seat { number, table: self.clone() }
    }

    fn with(&self, number: u64, action: impl FnOnce(&mut Guest)) {
        let mut table = self.0.borrow_mut();
        let now = table.tick();
        if let Some(guest) = table.taken.get_mut(&number) {
            guest.heard = now;
            action(guest);
        }
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn make_room(&mut self) -> Option<AbortHandle> {
        if self.taken.len() < self.capacity {
            return None;
        }
        let order = |(_, guest): &(&u64, &Guest)| (guest.is_busy, guest.heard);
        let number = *self.taken.iter().min_by_key(order)?.0;
        self.taken.remove(&number)?.task
    }
}

impl Seat {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn set_busy(&self, is_busy: bool) {
        self.table.with(self.number, |guest| guest.is_busy = is_busy);
    }
}

impl Seats {
    /// What ends when the seat is given to another.
    pub(super) fn occupy(&self, number: u64, task: AbortHandle) {
        self.with(number, |guest| guest.task = Some(task));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.0.borrow_mut().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(seats: &Seats) -> Vec<u64> {
        seats.0.borrow().taken.keys().copied().collect()
    }

    #[test]
    fn the_one_that_was_quiet_for_longest_goes_and_the_busy_last() {
        let seats = Seats::new(3);
        let [busy, quiet, heard] = [seats.take(), seats.take(), seats.take()];
        busy.set_busy(true);
        quiet.set_busy(false);
        heard.set_busy(true);
        heard.set_busy(false);
        let newcomer = seats.take();
        assert_eq!(taken(&seats), [busy.number, heard.number, newcomer.number]);
        drop(quiet);
        assert_eq!(taken(&seats).len(), 3, "its seat is another's by now");
        newcomer.set_busy(true);
        heard.set_busy(true);
        let last = seats.take();
        assert_eq!(taken(&seats), [heard.number, newcomer.number, last.number], "all busy: the longest");
        drop(newcomer);
        assert_eq!(taken(&seats).len(), 2);
    }
}
