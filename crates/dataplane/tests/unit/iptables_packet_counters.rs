//! Unit tests of `iptables/packet_counters`.

use super::*;
use kernel::iptables::{Stamp, Table};
use simulate::iptables::Simulator;

const MADE: Counters = Counters { invalid: true, localhost: true, refusals: false };

fn made() -> [io::Result<()>; 2] {
    [Ok(()), Ok(())]
}

#[test]
fn a_kernel_that_cannot_count_is_not_asked_to_until_it_can() {
    let (mut tables, mut keeper) = (Simulator::new(false), Keeper::default());
    assert_eq!(keeper.usable(made(), &mut tables), Counters::default());
    tables.add_account(INVALID_COUNTER);
    let denied = || Err(io::ErrorKind::PermissionDenied.into());
    assert_eq!(keeper.usable([denied(), denied()], &mut tables), Counters::default());
    assert_eq!(keeper.usable(made(), &mut tables), MADE);
}

/// Has a lock that another process holds, or is never asked.
struct Locked(bool);

impl Tables for Locked {
    fn save(&mut self, _: Table) -> Result<String, ToolError> {
        Ok(String::new())
    }
    fn outline(&mut self, _: Table, _: &[(&str, &str)]) -> Result<String, ToolError> {
        Ok(String::new())
    }
    fn restore(&mut self, _: &str) -> Result<(), ToolError> {
        assert!(self.0, "asked again");
        Err(ToolError::Locked { tool: "x".into(), file: "y".into(), seconds: 1 })
    }
    fn stamp(&mut self) -> Option<Stamp> {
        None
    }
    fn has_random_fully(&self) -> bool {
        false
    }
}

#[test]
fn a_lock_says_nothing_about_counting_and_what_is_known_is_not_tried_again() {
    let mut keeper = Keeper::default();
    assert_eq!(keeper.usable(made(), &mut Locked(true)), MADE);
    let mut tables = Simulator::new(false);
    assert_eq!(keeper.usable(made(), &mut tables), Counters::default(), "asked once the lock is free");
    tables.add_account(INVALID_COUNTER);
    assert_eq!(keeper.usable(made(), &mut tables), MADE);
    assert_eq!(keeper.usable(made(), &mut Locked(false)), MADE);
}
