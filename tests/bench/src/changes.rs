//! Small changes to what is loaded. Every one is undone by the next, so that all start from the same state.

use cluster::ObjectChange;
use model::Family;

use crate::bench::{Bench, Clocked};
use crate::load::Scope;
use crate::results::Changes;
use crate::{Failure, world};
use bench_support::gauge::{Cost, Summary};

/// Services changed in one sync.
const MANY: u32 = 1_000;
const MANY_REPETITIONS: u32 = 10;

pub(crate) fn measure<B: Clocked>(
    bench: &mut Bench<B>,
    family: Family,
    scope: &Scope,
) -> Result<Changes, Failure> {
    let replaced = replace(bench, family, scope)?;
    let (removed, added) = remove_and_add(bench, family, scope)?;
    let (service_added, service_removed) = services(bench, family, scope)?;
    let many = many(bench, family, scope)?;
    Ok(Changes { replaced, added, removed, service_added, service_removed, many })
}

/// One endpoint replaced by another.
pub(crate) fn replace<B: Clocked>(
    bench: &mut Bench<B>,
    family: Family,
    scope: &Scope,
) -> Result<Summary, Failure> {
    let mut costs = Vec::new();
    for turn in 0..scope.repetitions {
        let service = pick(turn, scope.services);
        for pods in [replaced(service, turn), world::pods(service)] {
            costs.push(bench.apply(vec![apply_slice(family, service, &pods)])?);
        }
    }
    Ok(Summary::of(&costs))
}

/// One endpoint taken away, and one added where it was.
fn remove_and_add<B: Clocked>(
    bench: &mut Bench<B>,
    family: Family,
    scope: &Scope,
) -> Result<(Summary, Summary), Failure> {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for turn in 0..scope.repetitions {
        let service = pick(turn, scope.services);
        let mut fewer = world::pods(service);
        fewer.remove(turn as usize % fewer.len());
        removed.push(bench.apply(vec![apply_slice(family, service, &fewer)])?);
        added.push(bench.apply(vec![apply_slice(family, service, &world::pods(service))])?);
    }
    Ok((Summary::of(&removed), Summary::of(&added)))
}

/// A whole service with its endpoints added, and removed.
pub(crate) fn services<B: Clocked>(
    bench: &mut Bench<B>,
    family: Family,
    scope: &Scope,
) -> Result<(Summary, Summary), Failure> {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for turn in 0..scope.repetitions {
        let number = scope.services + turn;
        let service = world::service(family, number);
        let key = service.key.clone();
        let slice = apply_slice(family, number, &world::pods(number));
        added.push(bench.apply(vec![ObjectChange::Apply(service), slice])?);
        let slice = ObjectChange::Delete(world::slice_key(number, 0));
        removed.push(bench.apply(vec![ObjectChange::Delete(key), slice])?);
    }
    Ok((Summary::of(&added), Summary::of(&removed)))
}

/// One endpoint of each of many services replaced, in one sync.
fn many<B: Clocked>(bench: &mut Bench<B>, family: Family, scope: &Scope) -> Result<Summary, Failure> {
    let mut costs: Vec<Cost> = Vec::new();
    for turn in 0..MANY_REPETITIONS {
        let first = (turn * MANY) % scope.services;
        let numbers = || (first..first + MANY).map(|number| number % scope.services);
        let there = numbers().map(|number| apply_slice(family, number, &replaced(number, number)));
        costs.push(bench.apply(there.collect())?);
        let back = numbers().map(|number| apply_slice(family, number, &world::pods(number)));
        costs.push(bench.apply(back.collect())?);
    }
    Ok(Summary::of(&costs))
}

/// Services in an order without pattern, so that no two neighbours in memory follow each other.
pub(crate) fn pick(turn: u32, services: u32) -> u32 {
    const PRIME: u32 = 7_919;
    turn.wrapping_mul(PRIME) % services
}

pub(crate) fn replaced(service: u32, turn: u32) -> Vec<u32> {
    let mut pods = world::pods(service);
    let slot = turn as usize % pods.len();
    pods[slot] = world::SPARE + turn;
    pods
}

fn apply_slice(family: Family, service: u32, pods: &[u32]) -> ObjectChange {
    ObjectChange::Apply(world::slice(family, service, 0, pods))
}
