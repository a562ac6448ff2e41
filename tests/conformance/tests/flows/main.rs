//! The table of packet flows while its world is in the API.
fn main() {}
