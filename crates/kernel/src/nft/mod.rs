//! nf_tables: build a [`Batch`], commit it over a [`Connection`], watch for changes of others.

mod batch;
mod encode;
mod expression;
mod object;
pub(crate) mod sys;

pub use batch::Batch;
pub use expression::{
    Base, CompareOp, CtDirection, CtKey, Expression, Fields, MetaKey, Reg, Reject, VerdictCode,
};
pub use object::{Chain, ElementData, Family, Hook, HookKind, Rule, Set, SetFlags, VERDICT};
