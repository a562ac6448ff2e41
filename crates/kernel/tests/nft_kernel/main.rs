//! nf_tables against the running kernel, each test in a network namespace of its own.

mod commit;
mod dump;
mod golden;
mod instructions;
mod layout;
mod monitor;
mod space;
