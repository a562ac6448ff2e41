//! iptables mode: our layout beside the one that it takes the place of, with each variant of the tools.

pub(crate) mod loads;
pub(crate) mod packets;
mod report;
mod tools;
mod upstream;

use loads::Loaded;
use packets::FirstPacket;
use serde::Serialize;

pub(crate) use report::print;

use crate::Failure;
use crate::children::{self, Part};
use crate::results::Limit;
use bench_support::variant::ToolVariant;

/// The yardstick's layout grows with the square of its chains in iptables-nft: 3,000 services take 20 s, 10,000 more
/// than eight minutes.
const MOST_OF_UPSTREAM_WITH_NFT: u32 = 3_000;
/// Services at which limits are judged.
const JUDGED: u32 = 10_000;
/// Of the search alone: tracking and translating costs the same in any layout, and how much of the whole that is depends
/// on the processor more than on the rules.
const PACKET_RATIO: f64 = 0.16;
const NFT_LOAD_S: f64 = 60.0;

#[derive(Debug, Default, Serialize)]
pub(crate) struct IptablesResults {
    pub(crate) loads: Vec<LoadResult>,
    pub(crate) packets: Vec<PacketResult>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LoadResult {
    pub(crate) variant: ToolVariant,
    pub(crate) services: u32,
    pub(crate) ours: Loaded,
    /// `None` where it would not come to an end.
    pub(crate) upstream: Option<Loaded>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PacketResult {
    pub(crate) scope: packets::Scope,
    pub(crate) measured: FirstPacket,
}

/// Loads and changes. A variant that is not there is left out, with a word about it in `skipped`.
pub(crate) fn measure_loads(quick: bool, skipped: &mut Vec<String>) -> Result<Vec<LoadResult>, Failure> {
    let mut results = Vec::new();
    for variant in usable("loading and changing", skipped) {
        let sizes: &[u32] = match variant {
            _ if !quick => &[1_000, 3_000, 10_000],
            ToolVariant::Legacy => &[1_000],
            ToolVariant::Nft => &[500],
        };
        for services in sizes.iter().copied() {
            crate::report::note(&format!("{services} services with {}", variant.name()));
            let has_upstream = variant == ToolVariant::Legacy || services <= MOST_OF_UPSTREAM_WITH_NFT;
            // One load of minutes is enough.
            let is_slow = variant == ToolVariant::Nft && services > 1_000;
            let loads = if quick || is_slow { 1 } else { 3 };
            let changes = if quick { 6 } else { 20 };
            let load = |upstream| {
                children::start(&Part::IptablesLoad(loads::Scope {
                    variant,
                    services,
                    loads,
                    changes,
                    upstream,
                }))
            };
            let ours = load(false)?;
            let upstream = has_upstream.then(|| load(true)).transpose()?;
            results.push(LoadResult { variant, services, ours, upstream });
        }
    }
    Ok(results)
}

/// The first packets of connections.
pub(crate) fn measure_packets(quick: bool, skipped: &mut Vec<String>) -> Result<Vec<PacketResult>, Failure> {
    let mut results = Vec::new();
    for variant in usable("first packets", skipped) {
        let sizes: &[u32] = match variant {
            _ if !quick => &[100, 1_000, 10_000],
            ToolVariant::Legacy => &[10_000],
            ToolVariant::Nft => &[500],
        };
        for services in sizes.iter().copied() {
            crate::report::note(&format!("first packets to {services} services with {}", variant.name()));
            let endpoint_chains = variant == ToolVariant::Legacy || services <= MOST_OF_UPSTREAM_WITH_NFT;
            let rounds = if quick { 10 } else { 40 };
            let scope = packets::Scope { variant, services, rounds, endpoint_chains };
            let measured = children::start(&Part::FirstPacket(scope))?;
            results.push(PacketResult { scope, measured });
        }
    }
    Ok(results)
}

fn usable(what: &str, skipped: &mut Vec<String>) -> Vec<ToolVariant> {
    let check = |variant: &ToolVariant| match variant.check() {
        Ok(()) => true,
        Err(why) => {
            skipped.push(format!("{what} with {}: {why}", variant.name()));
            false
        }
    };
    ToolVariant::BOTH.into_iter().filter(check).collect()
}

/// Whether what was measured keeps the limits; what was not measured is not judged.
pub(crate) fn judge(results: &IptablesResults) -> Vec<Limit> {
    let packets = results
        .packets
        .iter()
        .filter(|packet| packet.scope.services == JUDGED && packet.scope.variant == ToolVariant::Legacy);
    let packet = |packet: &PacketResult| Limit {
        what: format!(
            "{JUDGED} services, iptables-legacy: the search for a first packet, against the yardstick"
        ),
        measured: format!("{:.3}", packet.measured.of_search()),
        limit: format!("at most {PACKET_RATIO}"),
        kept: packet.measured.of_search() <= PACKET_RATIO,
    };
    let loads =
        results.loads.iter().filter(|load| load.services == JUDGED && load.variant == ToolVariant::Nft);
    let load = |load: &LoadResult| {
        let seconds = load.ours.load.median_us / 1e6;
        Limit {
            what: format!("{JUDGED} services, iptables-nft: full load"),
            measured: format!("{seconds:.1} s"),
            limit: format!("at most {NFT_LOAD_S} s"),
            kept: seconds <= NFT_LOAD_S,
        }
    };
    packets.map(packet).chain(loads.map(load)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_support::gauge::Summary;

    #[test]
    fn limits_are_for_one_size_and_variant_each() {
        let packet = |variant, services, ours_ns| PacketResult {
            scope: packets::Scope { variant, services, rounds: 1, endpoint_chains: true },
            measured: FirstPacket { upstream_ns: 100.0, ours_ns, ..FirstPacket::default() },
        };
        let load = |variant, seconds: f64| LoadResult {
            variant,
            services: JUDGED,
            ours: Loaded {
                load: Summary { median_us: seconds * 1e6, ..Summary::default() },
                ..Loaded::default()
            },
            upstream: None,
        };
        let kept = |ours_ns, seconds| {
            let results = IptablesResults {
                packets: vec![
                    packet(ToolVariant::Legacy, JUDGED, ours_ns),
                    packet(ToolVariant::Nft, JUDGED, 99.0),
                ],
                loads: vec![load(ToolVariant::Nft, seconds), load(ToolVariant::Legacy, 99.0)],
            };
            judge(&results).iter().map(|limit| limit.kept).collect::<Vec<_>>()
        };
        assert_eq!(kept(16.0, 60.0), [true, true]);
        assert_eq!(kept(16.1, 60.1), [false, false]);
    }
}
