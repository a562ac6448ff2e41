//! Looks into the kernel that take long: by another thread, and one after the other, however many are asked for. In mode
//! iptables each is a tool that saves whole tables.

use dataplane::{Inspection, InspectionError, Look};
use tokio::sync::Semaphore;

static ONE_AT_ONCE: Semaphore = Semaphore::const_new(1);

pub(super) async fn finish(look: Look) -> Result<Inspection, InspectionError> {
    if let Look::Done(outcome) = look {
        return outcome;
    }
    // It is never closed.
    let _turn = ONE_AT_ONCE.acquire().await;
    tokio::task::spawn_blocking(move || look.finish()).await.unwrap_or_else(|error| Err(error.into()))
}
