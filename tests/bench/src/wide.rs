//! One service with thousands of endpoints, in slices of a hundred as the control plane cuts them.

use cluster::ObjectChange;
use kernel::netns::Namespace;
use model::Family;

use crate::bench::Bench;
use crate::results::WideResult;
use crate::{Failure, world};
use bench_support::gauge::Summary;

const SLICE: u32 = 100;
const REPETITIONS: u32 = 30;
const SERVICE: u32 = 0;

pub(crate) fn measure(endpoints: u32) -> Result<WideResult, Failure> {
    Namespace::new()?.try_run(|| measure_here(endpoints))?
}

fn measure_here(endpoints: u32) -> Result<WideResult, Failure> {
    let mut bench = Bench::nftables(false)?;
    bench.state.apply(world::service(Family::V4, SERVICE));
    for slice in 0..endpoints.div_ceil(SLICE) {
        bench.state.apply(world::slice(Family::V4, SERVICE, slice, &pods(slice, endpoints)));
    }
    let (load, _) = bench.sync()?;
    let (mut replaced, mut removed, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..REPETITIONS {
        let slice = turn % (endpoints / SLICE).max(1);
        let old = pods(slice, endpoints);
        let place = turn as usize % old.len();
        let mut other = old.clone();
        other[place] = world::SPARE + turn;
        let mut fewer = old.clone();
        fewer.remove(place);
        let change = |pods: &[u32]| vec![ObjectChange::Apply(world::slice(Family::V4, SERVICE, slice, pods))];
        replaced.push(bench.apply(change(&other))?);
        replaced.push(bench.apply(change(&old))?);
        removed.push(bench.apply(change(&fewer))?);
        added.push(bench.apply(change(&old))?);
    }
    bench.cleanup()?;
    let [replaced, removed, added] = [replaced, removed, added].map(|costs| Summary::of(&costs));
    Ok(WideResult { endpoints, load, replaced, added, removed })
}

fn pods(slice: u32, endpoints: u32) -> Vec<u32> {
    (slice * SLICE..((slice + 1) * SLICE).min(endpoints)).collect()
}
