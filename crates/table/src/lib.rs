//! The flat table of nf_tables, where services and endpoints are only elements of a constant number of maps; but for ports
//! with many addresses or endpoints, which have a pool of their own. `docs/nftables.md` describes it.
//!
//! Here plans become elements, and a change of plans a transaction. Who commits it, and when, is not decided here: modes
//! nftables, ipvs and userspace use the same table.

mod bytes;
mod class;
mod code;
mod counting_rules;
mod demands;
mod diff;
mod element;
mod inherit;
mod ipvs_rules;
mod layout;
mod meter;
mod node;
mod own_pool;
mod pinning;
mod pool;
mod refusals;
mod render;
pub mod ruleset;
mod sets;
mod sweep;
mod table;
pub mod trace;
mod traffic;
mod user_data;

pub use bytes::Fields;
pub use element::{Data, Element};
pub use inherit::read as read_pins;
pub use layout::{Addition, Picker, TABLE, TableSetup, local_mark, nft_family, rule};
pub use meter::{Counting, Direction, Meter, MeterName};
pub use own_pool::elements as own_pool_elements;
pub use refusals::counter;
pub use render::{RenderedPort, destination_key};
pub use sets::{Door, SetName};
pub use sweep::{PINS_TOGETHER, Pin, PinSweep, delete_pins, forget, split_before};
pub use table::{Existing, Table};
pub use traffic::{Count, PortTraffic, ServicePortName, counter_names, read_traffic};
