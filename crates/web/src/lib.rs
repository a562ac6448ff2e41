//! The HTTP servers of the agent: who may wait, how requests are read and how they are answered. Which pages there are is
//! not decided here.

pub mod answer;
pub mod body;
pub mod guard;
pub mod listener;
pub mod negotiate;
pub mod router;
pub mod seats;
pub mod server;
mod stream;
