//! A mutation driver without instrumentation, for `cargo test`: deterministic, and good for the shallow half of what
//! libFuzzer finds.

use simulate::Xorshift;

/// Numbers at which lengths and counters break.
const EDGES: [u64; 14] = [
    0,
    1,
    3,
    4,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Makes inputs out of those that are known.
pub struct Mutator {
    random: Xorshift,
    known: Vec<Vec<u8>>,
    dictionary: &'static [&'static str],
    longest: usize,
}

impl Mutator {
    pub fn new(
        seed: u64,
        known: Vec<Vec<u8>>,
        dictionary: &'static [&'static str],
        longest: usize,
    ) -> Mutator {
        Mutator { random: Xorshift::new(seed), known, dictionary, longest }
    }

    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.one_of_known();
        for _ in 0..=self.below(6) {
            self.change(&mut input);
        }
        input.truncate(self.longest);
        input
    }

    fn one_of_known(&mut self) -> Vec<u8> {
        let at = self.below(self.known.len());
        self.known.get(at).cloned().unwrap_or_default()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        match self.below(9) {
            0 => self.with_byte(input, at, |byte, random| byte ^ 1 << (random % 8)),
            1 => self.with_byte(input, at, |_, random| random as u8),
            2 => {
                let end = (at + 1 + self.below(16)).min(input.len());
                input.drain(at.min(end)..end);
            }
            3 => {
                let end = (at + 1 + self.below(64)).min(input.len());
                let copy = input[at.min(end)..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            4 => self.number(input, at),
            5 => {
                let other = self.one_of_known();
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            6 if !self.dictionary.is_empty() => {
                let word = self.dictionary[self.below(self.dictionary.len())];
                input.splice(at..at, word.bytes());
            }
            7 => {
                let byte = self.below(256) as u8;
                let count = self.below(32);
                input.splice(at..at, std::iter::repeat_n(byte, count));
            }
            _ => input.truncate(at),
        }
    }

    fn with_byte(&mut self, input: &mut [u8], at: usize, change: impl FnOnce(u8, usize) -> u8) {
        let random = self.below(256);
        if let Some(byte) = input.get_mut(at) {
            *byte = change(*byte, random);
        }
    }

    /// Write an edge over what is there, in either order of bytes.
    fn number(&mut self, input: &mut [u8], at: usize) {
        let edge = EDGES[self.below(EDGES.len())];
        let width = [1, 2, 4, 8][self.below(4)];
        let bytes = match self.below(2) {
            0 => edge.to_le_bytes()[..width].to_vec(),
            _ => edge.to_be_bytes()[8 - width..].to_vec(),
        };
        for (to, from) in input.iter_mut().skip(at).zip(bytes) {
            *to = from;
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.draw(limit.max(1) as u32) as usize
    }
}
