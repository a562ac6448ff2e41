//! Network namespaces held by file descriptor, and the right to make them.
//!
//! A [`Namespace`] lives as long as something refers to it: this value, a thread inside it, a socket made
//! in it. Nothing is bound to a path, so nothing is left behind when the process dies.

mod namespace;
mod privilege;
mod rerun;

pub use namespace::{Namespace, NamespaceError};
pub use privilege::{Denied, Privilege, acquire, enter_user_namespace};
pub use rerun::privileged_test;
