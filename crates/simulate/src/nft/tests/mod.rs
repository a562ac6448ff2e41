//! Packets through the proxy's table in miniature. What the simulator refuses is tested against the kernel,
//! in `tests/simulate_agrees`.

mod flat;
mod layout;
mod machine;
mod others;
mod rules;
