//! What the kernel checks when a rule is added: that registers hold something before they are read, that
//! sets and chains exist, and that both fit the instruction.

use kernel::nft::TableFamily;
use kernel::nft::sys::*;

use super::Errno;
use super::decode::DataLayout;
use super::instruction::{Instruction, REGISTER_BYTES, Register, Verdict};
use super::state::{Set, Table};

pub(super) fn check(instructions: &[Instruction], table: &Table, family: TableFamily) -> Result<(), Errno> {
    let mut registers = Registers { loaded: [false; REGISTER_BYTES / 4] };
    for one in instructions {
        registers.step(one, table, family)?;
    }
    Ok(())
}

/// A verdict may only lead to a chain that exists and hangs on no hook.
pub(super) fn check_verdict(verdict: &Verdict, table: &Table) -> Result<(), Errno> {
    let Some(target) = verdict.target() else { return Ok(()) };
    match table.chains.get(target) {
        None => Err(libc::ENOENT),
        Some(chain) if chain.hook.is_some() => Err(libc::EOPNOTSUPP),
        Some(_) => Ok(()),
    }
}

/// Which words of the register file have been written by the rule so far.
struct Registers {
    loaded: [bool; REGISTER_BYTES / 4],
}

impl Registers {
    fn step(&mut self, one: &Instruction, table: &Table, family: TableFamily) -> Result<(), Errno> {
        match one {
            Instruction::Payload { length, to, .. } => self.store(*to, *length),
            Instruction::Meta { key, to } => self.store(*to, key.length()),
            Instruction::SetMark { from } => self.load(*from, 4),
            Instruction::Ct { key, to } => self.store(*to, key.length()),
            Instruction::Compare { from, value, .. } => self.load(*from, value.len()),
            Instruction::Bitwise { from, to, mask, .. } => {
                self.load(*from, mask.len())?;
                self.store(*to, mask.len())
            }
            Instruction::Random { to, .. } => self.store(*to, 4),
            Instruction::Load { to, value } => self.store(*to, value.len()),
            Instruction::Lookup { set, key, to, invert } => {
                let set = table.sets.get(set).ok_or(libc::ENOENT)?;
                self.lookup(set, *key, *to, *invert)
            }
            Instruction::Dynset { set, key, data, timeout, .. } => {
                let set = table.sets.get(set).ok_or(libc::ENOENT)?;
                self.dynset(set, *key, *data, timeout.is_some())
            }
            Instruction::Count(name) => match table.counters.contains_key(name) {
                true => Ok(()),
                false => Err(libc::ENOENT),
            },
            Instruction::CountIn { map, key } => {
                let map = table.sets.get(map).ok_or(libc::ENOENT)?;
                self.load(*key, map.layout.key_length)?;
                if map.layout.has(NFT_SET_OBJECT) { Ok(()) } else { Err(libc::EINVAL) }
            }
            Instruction::Verdict(verdict) => check_verdict(verdict, table),
            Instruction::Dnat { address, port } => {
                let length = if family == TableFamily::Ip { 4 } else { 16 };
                address.map_or(Ok(()), |address| self.load(address, length))?;
                port.map_or(Ok(()), |port| self.load(port, 2))
            }
            Instruction::Masquerade | Instruction::Reject(_) | Instruction::Counter => Ok(()),
        }
    }

    fn lookup(&mut self, set: &Set, key: Register, to: Option<Register>, invert: bool) -> Result<(), Errno> {
        self.load(key, set.layout.key_length)?;
        match (to, set.layout.data) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(libc::EINVAL),
            (Some(_), _) if invert => Err(libc::EINVAL),
            (Some(Register::VERDICT), Some(DataLayout::Verdict)) => Ok(()),
            (Some(_), Some(DataLayout::Verdict)) => Err(libc::EINVAL),
            (Some(to), Some(DataLayout::Value { length, .. })) => self.store(to, length),
        }
    }

    fn dynset(
        &mut self,
        set: &Set,
        key: Register,
        data: Option<Register>,
        has_timeout: bool,
    ) -> Result<(), Errno> {
        if !takes_writes(set) || has_timeout && !set.layout.has(NFT_SET_TIMEOUT) {
            return Err(libc::EOPNOTSUPP);
        }
        self.load(key, set.layout.key_length)?;
        match (data, set.layout.data) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(libc::EINVAL),
            (Some(_), None | Some(DataLayout::Verdict)) => Err(libc::EOPNOTSUPP),
            (Some(data), Some(DataLayout::Value { length, .. })) => self.load(data, length),
        }
    }

    /// Linux before 6.13 let a rule read registers nothing had written; its packets then met leftovers.
    fn load(&self, register: Register, length: usize) -> Result<(), Errno> {
        let words = self.loaded.get(words(register, length)?).ok_or(libc::ERANGE)?;
        if words.iter().all(|loaded| *loaded) { Ok(()) } else { Err(libc::ENODATA) }
    }

    fn store(&mut self, register: Register, length: usize) -> Result<(), Errno> {
        self.loaded.get_mut(words(register, length)?).ok_or(libc::ERANGE)?.fill(true);
        Ok(())
    }
}

/// Whether packets can write: the kernel keeps a set of fixed size and an interval set in ways that exclude it.
fn takes_writes(set: &Set) -> bool {
    !set.layout.has(NFT_SET_INTERVAL) && (set.size == 0 || set.layout.has(NFT_SET_EVAL | NFT_SET_TIMEOUT))
}

fn words(register: Register, length: usize) -> Result<std::ops::Range<usize>, Errno> {
    if register == Register::VERDICT || length == 0 {
        return Err(libc::EINVAL);
    }
    let bytes = register.span(length);
    Ok(bytes.start / 4..bytes.end.div_ceil(4))
}
