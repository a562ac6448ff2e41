//! Upper bounds of histograms, as upstream has them: queries name them.

/// A millisecond to 16 s, doubling.
pub(super) const SYNC: &[f64] = &doubling(0.001);

/// Four times finer at the start than [`SYNC`]: what syncs are made of is short.
pub(super) const PHASE: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Zero, for clocks that disagree; a quarter of a second to five minutes.
pub(super) const NETWORK_PROGRAMMING: &[f64] = &network_programming();

pub(super) const REQUEST: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

pub(super) const REQUEST_SIZE: &[f64] =
    &[64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];

const fn doubling(first: f64) -> [f64; 15] {
    let mut bounds = [first; 15];
    let mut i = 1;
    while i < bounds.len() {
        bounds[i] = bounds[i - 1] * 2.0;
        i += 1;
    }
    bounds
}

const fn network_programming() -> [f64; 81] {
    let mut bounds = [0.0; 81];
    let mut i = 1;
    while i < bounds.len() {
        bounds[i] = match i {
            1..3 => i as f64 * 0.25,
            3..62 => (i - 2) as f64,
            62..74 => 60.0 + (i - 62) as f64 * 5.0,
            _ => 120.0 + (i - 74) as f64 * 30.0,
        };
        i += 1;
    }
    bounds
}
