//! What packets met while a machine was changed.

use std::cell::RefCell;
use std::rc::Rc;

use simulate::ipvs::{Machine, SharedMachine};

use crate::simulated::Rules;

/// So many are kept, evenly spread over all that were seen.
const MOST: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Steps(Rc<RefCell<Seen>>);

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
        let steps = Steps::default();
        let seen = steps.0.clone();
        machine.look(move |machine| seen.borrow_mut().see(machine));
        steps
    }

    pub(super) fn begin(&self, failures: usize) {
        *self.0.borrow_mut() = Seen { stride: 1, failures, ..Seen::default() };
    }

    pub(super) fn take(&self, failures: usize) -> Vec<Rules> {
        let seen = std::mem::take(&mut *self.0.borrow_mut());
        if seen.failures != failures {
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
