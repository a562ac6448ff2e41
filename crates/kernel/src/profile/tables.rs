//! What the sampling allocator remembers: stacks that allocated, and sampled blocks that live.
//!
//! Of fixed size, all zeroes at first, filled from the front: what was never used takes no memory. Pure.

/// Distinct stacks. Those that come later are counted together, without frames.
const STACKS: usize = 512;
/// Frames of a stack that are kept, the innermost.
pub(super) const DEPTH: usize = 32;
/// Sampled blocks that live at the same time, each for some 512 KiB.
const BLOCKS: usize = 2048;

pub(super) struct Tables {
    stacks: [Stack; STACKS],
    stacks_used: usize,
    blocks: [Block; BLOCKS],
    blocks_used: usize,
    /// Samples whose block could not be noted: they are missing in what lives.
    pub(super) forgotten: u64,
}

/// Allocations from one place, as estimated from their samples.
#[derive(Clone, Copy)]
pub(super) struct Stack {
    depth: u32,
    hash: u32,
    frames: [usize; DEPTH],
    pub(super) allocated: Amount,
    pub(super) live: Amount,
}

/// A number of objects and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    pub objects: f64,
    pub bytes: f64,
}

#[derive(Clone, Copy)]
struct Block {
    address: usize,
    stack: u32,
    amount: Amount,
}

const NOTHING: Amount = Amount { objects: 0.0, bytes: 0.0 };

impl Tables {
    pub(super) const EMPTY: Tables = Tables {
        stacks: [Stack { depth: 0, hash: 0, frames: [0; DEPTH], allocated: NOTHING, live: NOTHING }; STACKS],
        stacks_used: 0,
        blocks: [Block { address: 0, stack: 0, amount: NOTHING }; BLOCKS],
        blocks_used: 0,
        forgotten: 0,
    };

    /// A block was sampled; `amount` is what it stands for. Says whether its end has to be reported.
    pub(super) fn allocated(&mut self, address: usize, amount: Amount, frames: &[usize]) -> bool {
        let number = self.number(frames);
        let Some(stack) = self.stacks.get_mut(number) else { return false };
        stack.allocated.add(amount);
        let Some(block) = self.blocks.get_mut(self.blocks_used) else {
            self.forgotten += 1;
            return false;
        };
        stack.live.add(amount);
        *block = Block { address, stack: number as u32, amount };
        self.blocks_used += 1;
        true
    }

    /// A block is freed. Says whether it was a sampled one.
    pub(super) fn freed(&mut self, address: usize) -> bool {
        let used = self.blocks.get_mut(..self.blocks_used).unwrap_or_default();
        let Some(number) = used.iter().position(|block| block.address == address) else { return false };
        let Some(last) = used.len().checked_sub(1) else { return false };
        used.swap(number, last);
        let block = used.get(last).copied();
        self.blocks_used = last;
        if let Some(block) = block
            && let Some(stack) = self.stacks.get_mut(block.stack as usize)
        {
            stack.live.remove(block.amount);
        }
        true
    }

    pub(super) fn stacks(&self) -> &[Stack] {
        self.stacks.get(..self.stacks_used).unwrap_or_default()
    }

    /// The number of this stack, an old or a new one; the last one is everybody's.
    fn number(&mut self, frames: &[usize]) -> usize {
        let frames = frames.get(..DEPTH).unwrap_or(frames);
        let hash = frames.iter().fold(0_u64, |hash, frame| mix(hash ^ *frame as u64)) as u32;
        let same = |stack: &Stack| stack.hash == hash && stack.frames() == frames;
        if let Some(number) = self.stacks().iter().position(same) {
            return number;
        }
        let number = self.stacks_used.min(STACKS - 1);
        if number < STACKS - 1
            && let Some(stack) = self.stacks.get_mut(number)
        {
            stack.depth = frames.len() as u32;
            stack.hash = hash;
            stack.frames.iter_mut().zip(frames).for_each(|(place, frame)| *place = *frame);
        }
        self.stacks_used = number + 1;
        number
    }
}

impl Stack {
    pub(super) fn frames(&self) -> &[usize] {
        self.frames.get(..self.depth as usize).unwrap_or_default()
    }
}

impl Amount {
    fn add(&mut self, other: Amount) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Amount) {
        self.objects -= other.objects;
        self.bytes -= other.bytes;
    }
}

/// Spread the bits of a number over all of it.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    number ^ (number >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Box<Tables> {
        Box::new(Tables::EMPTY)
    }

    const ONE: Amount = Amount { objects: 1.0, bytes: 10.0 };

    #[test]
    fn what_is_freed_no_longer_lives_but_was_allocated() {
        let mut tables = empty();
        assert!(tables.allocated(0x10, ONE, &[1, 2]) && tables.allocated(0x20, ONE, &[1, 2]));
        assert!(tables.allocated(0x30, ONE, &[1, 3]));
        assert!(tables.freed(0x10) && !tables.freed(0x10) && !tables.freed(0x40));
        let [first, second] = tables.stacks() else { panic!("two stacks") };
        assert_eq!((first.frames(), first.allocated.objects, first.live), (&[1, 2][..], 2.0, ONE));
        assert_eq!((second.frames(), second.live), (&[1, 3][..], ONE));
    }

    #[test]
    fn full_tables_still_count() {
        let mut tables = empty();
        for number in 0..STACKS + 100 {
            assert!(tables.allocated(0x1000 + number, ONE, &[number + 1]));
        }
        assert_eq!(tables.stacks().len(), STACKS);
        let other = tables.stacks().last().unwrap();
        assert_eq!((other.frames(), other.live.objects), (&[][..], 101.0));
        assert!(tables.freed(0x1000 + STACKS));
        for number in 0..BLOCKS {
            tables.allocated(0x10_0000 + number, ONE, &[1]);
        }
        assert!(tables.forgotten > 0);
        let deep: Vec<usize> = (0..2 * DEPTH).collect();
        let mut tables = empty();
        tables.allocated(1, ONE, &deep);
        assert_eq!(tables.stacks()[0].frames(), &deep[..DEPTH]);
    }
}
