//! Removes the tables of nftables mode: Kubernetes' own kube-proxy gives its tables the same name.

use kernel::nft::{self, Connection};
use model::{Family, LocalDetector};

use super::Nftables;
use super::mode::NAME;
use crate::backend::Backend as _;
use crate::leftovers::{Leftover, Removal, Search};

pub(super) fn remove(search: Search) -> Removal {
    let mut removal = Removal::default();
    let mut tables = match nft::connect_if_present() {
        Ok(None) => return removal,
        Ok(Some(connection)) => over(connection),
        Err(error) => {
            removal.left.push(Leftover::new(NAME, "cannot open a netlink socket").because(error));
            return removal;
        }
    };
    for family in Family::BOTH {
        let is_there = tables.exists(family);
        if !is_there && search == Search::WhereSeen {
            continue;
        }
        match tables.cleanup(family) {
            Ok(()) if is_there => {
                removal.had_some = true;
                tracing::info!(%family, "Removed the rules of nftables mode");
            }
            Ok(()) => {}
            Err(source) => {
                let what = format!("the {family} rules of nftables mode may still be there");
                removal.left.push(Leftover::new(NAME, what).of_family(family).because(source));
            }
        }
    }
    removal
}

pub(super) fn are_there() -> bool {
    let Ok(Some(connection)) = nft::connect_if_present() else { return false };
    let mut tables = over(connection);
    Family::BOTH.into_iter().any(|family| tables.exists(family))
}

/// Neither a detector nor a mark matters to a table that goes as a whole.
fn over(connection: Connection) -> Nftables<Connection> {
    Nftables::new(connection, &LocalDetector::None, 0)
}
