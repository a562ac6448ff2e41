//! Random choices that a seed repeats.

use simulate::Xorshift;

/// A source of choices.
#[derive(Debug)]
pub struct Dice(Xorshift);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        let mut random = Xorshift::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        // Neighbouring seeds begin alike.
        for _ in 0..16 {
            random.draw(2);
        }
        Dice(random)
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        self.0.draw(limit)
    }

    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u32) as usize].clone()
    }

    /// Up to `most` of them, in their order, none twice.
    pub fn some<T: Clone>(&mut self, items: &[T], most: u32) -> Vec<T> {
        let wanted = self.below(most + 1);
        let percent = 100 * wanted / items.len() as u32;
        items.iter().filter(|_| self.chance(percent)).cloned().collect()
    }
}
