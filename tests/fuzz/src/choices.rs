//! Bytes as a source of choices: what libFuzzer changes in them changes what is chosen.

/// At the end of the bytes every choice is the first one.
pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { rest: bytes }
    }

    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// Some bytes; fewer at the end.
    pub fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// What is left.
    pub fn remainder(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// From 0 to less than `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        match limit {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % limit,
            _ => usize::from(self.word()) % limit,
        }
    }

    /// In so many of 256 cases.
    pub fn chance(&mut self, of_256: u8) -> bool {
        // 0, which every choice is at the end, is no.
        self.byte() > u8::MAX - of_256
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
