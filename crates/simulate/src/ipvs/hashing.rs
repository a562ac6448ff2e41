//! The schedulers that hash: the same client, or the same called address, leads to the same destination.

use std::net::IpAddr;

use kernel::ipvs::Destination;

use super::server::Real;

/// Buckets of the tables of `sh` and `dh`.
const BUCKETS: u32 = 256;

/// `dh`: destinations take turns at the buckets; one of weight 0 refuses.
pub(super) fn by_called_address(pool: &[Real], called: IpAddr) -> Option<Destination> {
    let real = pool.get(bucket(folded(called)) as usize % pool.len().max(1))?;
    (real.weight > 0).then_some(real.at)
}

/// `sh`: destinations take as many buckets in turn as they have weight, but at least one. One of weight 0 refuses its
/// clients, unless they may fall back to another bucket.
pub(super) fn by_source(pool: &[Real], client: IpAddr, port: u16, fallback: bool) -> Option<Destination> {
    let buckets = buckets(pool);
    let hash = bucket(folded(client).wrapping_add(u32::from(port)));
    let at = |offset: u32| buckets.get((hash.wrapping_add(offset) % BUCKETS) as usize).copied();
    let first = at(0)?;
    if first.weight > 0 {
        return Some(first.at);
    }
    let mut others = (0..BUCKETS).filter_map(|offset| at((offset + hash) % BUCKETS));
    others.find(|real| fallback && real.weight > 0).map(|real| real.at)
}

/// The kernel's `hash_32`, down to [`BUCKETS`].
fn bucket(word: u32) -> u32 {
    word.wrapping_mul(0x61c8_8647) >> 24
}

fn buckets(pool: &[Real]) -> Vec<&Real> {
    let turns = pool.iter().flat_map(|real| std::iter::repeat_n(real, real.weight.max(1) as usize));
    let turns: Vec<&Real> = turns.take(BUCKETS as usize).collect();
    turns.iter().copied().cycle().take(if turns.is_empty() { 0 } else { BUCKETS as usize }).collect()
}

/// `mh`: each client ranks the destinations in an order of its own, so that one which goes takes only its own clients
/// along. The kernel has a table for that; which destination a client gets differs from it.
pub(super) fn by_ranking(pool: &[Real], client: IpAddr, port: u16) -> Option<Destination> {
    let rank = |real: &&Real| {
        let seed = mix(u64::from(folded(client)) << 16 | u64::from(port));
        mix(seed ^ (u64::from(folded(real.at.address)) << 16 | u64::from(real.at.port)))
    };
    pool.iter().filter(|real| real.weight > 0).max_by_key(rank).map(|real| real.at)
}

/// An address as one word; IPv6 ones by the exclusive or of their four.
fn folded(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (0..4).fold(0, |folded, word| folded ^ (bits >> (32 * word)) as u32)
        }
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ value >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
}
