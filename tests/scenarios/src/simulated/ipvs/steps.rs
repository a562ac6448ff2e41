//! What packets met while a machine was changed.

use std::cell::RefCell;
use std::rc::Rc;

use simulate::ipvs::{Machine, SharedMachine};

use crate::simulated::Rules;

/// So many are kept, evenly spread over all that were seen.
const MOST: usize = 16;

#[derive(Debug)]
pub struct Steps {
    machine: SharedMachine,
    seen: Rc<RefCell<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    steps: Vec<Machine>,
    /// Every so many is kept.
    stride: usize,
    count: usize,
    /// How many failures there had been when it began.
    failures: usize,
}

impl Steps {
    pub(super) fn of(machine: &SharedMachine) -> Steps {
        let steps = Steps { machine: machine.clone(), seen: Rc::default() };
        let seen = steps.seen.clone();
        machine.look(move |machine| seen.borrow_mut().see(machine));
        steps
    }

    /// From now on, remember what packets meet.
    pub(super) fn begin(&self) {
        let failures = self.machine.operations().1;
        *self.seen.borrow_mut() = Seen { stride: 1, failures, ..Seen::default() };
    }

    /// What packets met; nothing if something was made to fail meanwhile.
    pub(super) fn take(&self) -> Vec<Rules> {
        let seen = std::mem::take(&mut *self.seen.borrow_mut());
        if seen.failures != self.machine.operations().1 {
            return Vec::new();
        }
        seen.steps.into_iter().map(|machine| Rules::Ipvs(Box::new(machine))).collect()
    }
}

impl Seen {
    fn see(&mut self, machine: &Machine) {
        if self.stride == 0 {
            return;
        }
        if self.count.is_multiple_of(self.stride) {
            self.steps.push(machine.clone());
        }
        self.count += 1;
        if self.steps.len() > MOST {
            let mut place = 0;
            self.steps.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.stride *= 2;
        }
    }
}
