//! How many connections are open at a time, and which one goes when all seats are taken.
//!
//! The address that holds the most seats gives one up: the one that was idle longest. So a crowd
//! only ever takes seats of its own, and a probe that asks at once is answered long before it is its turn to go.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::rc::Rc;

use tokio::task::AbortHandle;

/// Connections that one server, or all servers of a kind, hold open.
#[derive(Clone, Debug)]
pub struct Seats(Rc<RefCell<Table>>);

#[derive(Debug, Default)]
struct Table {
    capacity: usize,
    /// Counts what happens, so that events can be ordered.
    clock: u64,
    taken: BTreeMap<u64, Guest>,
    /// How many seats each address holds.
    held: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Guest {
    peer: IpAddr,
    /// An answer is being made.
    is_busy: bool,
    /// When it last came, asked or was answered.
    heard: u64,
    task: Option<AbortHandle>,
}

/// A taken seat; free again when dropped.
#[derive(Debug)]
pub struct Seat {
    number: u64,
    table: Seats,
}

impl Seats {
    pub fn new(capacity: usize) -> Seats {
        Seats(Rc::new(RefCell::new(Table { capacity, ..Table::default() })))
    }

    /// Take a seat, from another client if necessary.
    pub fn take(&self, peer: IpAddr) -> Seat {
        let mut table = self.0.borrow_mut();
        let leaving = table.make_room();
        let number = table.tick();
        table.taken.insert(number, Guest { peer, is_busy: false, heard: number, task: None });
        *table.held.entry(peer).or_default() += 1;
        drop(table);
        // A task that ends gives its seat back, hence after the table is free.
        leaving.into_iter().for_each(|task| task.abort());
        Seat { number, table: self.clone() }
    }

    /// What ends when the seat is given to another.
    pub fn occupy(&self, number: u64, task: AbortHandle) {
        self.with(number, |guest| guest.task = Some(task));
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
        let (crowd, _) = self.held.iter().max_by_key(|(peer, seats)| (**seats, **peer))?;
        let guests = self.taken.iter().filter(|(_, guest)| guest.peer == *crowd);
        let number = *guests.min_by_key(|(_, guest)| (guest.is_busy, guest.heard))?.0;
        self.free(number)
    }

    fn free(&mut self, number: u64) -> Option<AbortHandle> {
        let guest = self.taken.remove(&number)?;
        if let Some(seats) = self.held.get_mut(&guest.peer) {
            *seats -= 1;
            if *seats == 0 {
                self.held.remove(&guest.peer);
            }
        }
        guest.task
    }
}

impl Seat {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Half of the seats are taken: no connection should be kept for another request.
    pub fn is_crowded(&self) -> bool {
        let table = self.table.0.borrow();
        table.taken.len() * 2 >= table.capacity
    }

    pub fn set_busy(&self, is_busy: bool) {
        self.table.with(self.number, |guest| guest.is_busy = is_busy);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.0.borrow_mut().free(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(seats: &Seats) -> Vec<u64> {
        seats.0.borrow().taken.keys().copied().collect()
    }

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn the_one_that_was_quiet_for_longest_goes_and_the_busy_last() {
        let seats = Seats::new(3);
        let [busy, quiet, heard] = [(); 3].map(|()| seats.take(peer(1)));
        busy.set_busy(true);
        quiet.set_busy(false);
        heard.set_busy(true);
        heard.set_busy(false);
        let newcomer = seats.take(peer(1));
        assert_eq!(taken(&seats), [busy.number, heard.number, newcomer.number]);
        drop(quiet);
        assert_eq!(taken(&seats).len(), 3, "its seat is another's by now");
        newcomer.set_busy(true);
        heard.set_busy(true);
        let last = seats.take(peer(1));
        assert_eq!(taken(&seats), [heard.number, newcomer.number, last.number], "all busy: the longest");
        drop(newcomer);
        assert_eq!(taken(&seats).len(), 2);
        drop((busy, heard, last));
        assert!(seats.0.borrow().held.is_empty());
    }

    #[test]
    fn a_crowd_takes_only_seats_of_its_own() {
        let seats = Seats::new(3);
        let lone = seats.take(peer(9));
        let crowd: Vec<Seat> = (0..10).map(|_| seats.take(peer(1))).collect();
        assert_eq!(taken(&seats), [lone.number, crowd[8].number, crowd[9].number]);
    }
}
