//! What the repository promises about itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a check that cannot look has failed")]

mod dependencies;
mod deploy;
mod documents;
mod examples;
mod modes;
mod report;
mod source;
