//! Random numbers that can be repeated.

/// A small generator of random numbers: the same seed gives the same journey.
#[derive(Clone, Debug)]
pub struct Xorshift(u64);

impl Xorshift {
    pub fn new(seed: u64) -> Xorshift {
        // The generator would stay at zero for ever.
        Xorshift(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// A number below `modulus`.
    pub fn draw(&mut self, modulus: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper half is the better one; scaling it needs no division by what may be zero.
        (((self.0 >> 32) * u64::from(modulus)) >> 32) as u32
    }
}
