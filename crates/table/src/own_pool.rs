//! The elements of a port's own pools. They are many, so that a change is found by comparing slots, not by sorting.

use model::{PlannedEndpoint, Pool};

use crate::bytes::Fields;
use crate::diff::Difference;
use crate::element::{Data, Element};
use crate::pool::PoolId;
use crate::render::{RenderedPort, endpoint, hairpin};
use crate::sets::SetName;

/// Every element of the port's own pools.
pub fn elements<'a>(rendered: &'a RenderedPort<'_>) -> impl Iterator<Item = Element> + 'a {
    let own = Pool::BOTH.into_iter().filter_map(|pool| Some((pool, rendered.own.get(pool)?)));
    own.flat_map(move |(pool, id)| {
        let backends = slots(rendered, pool).iter().enumerate();
        backends.flat_map(move |(slot, backend)| {
            std::iter::once(slot_element(id, slot, backend)).chain(beside(rendered, id, backend))
        })
    })
}

/// Hand every element of the port's own pools to `each`.
pub(crate) fn render(rendered: &RenderedPort<'_>, each: &mut dyn FnMut(Element)) {
    elements(rendered).for_each(each);
}

/// What the own pools of a port lose and gain.
pub(crate) fn compare(
    before: Option<&RenderedPort<'_>>,
    after: Option<&RenderedPort<'_>>,
    difference: &mut Difference,
) {
    match (before, after) {
        (Some(before), Some(after)) if is_alike(before, after) => {
            for pool in Pool::BOTH {
                if let Some(id) = after.own.get(pool) {
                    compare_slots(before, after, id, difference);
                }
            }
        }
        _ => {
            before.into_iter().for_each(|port| render(port, &mut |element| difference.removed.push(element)));
            after.into_iter().for_each(|port| render(port, &mut |element| difference.added.push(element)));
        }
    }
}

/// Whether an endpoint means the same elements before and after.
fn is_alike(before: &RenderedPort<'_>, after: &RenderedPort<'_>) -> bool {
    before.own == after.own && before.seconds.is_some() == after.seconds.is_some()
}

fn compare_slots(
    before: &RenderedPort<'_>,
    after: &RenderedPort<'_>,
    id: PoolId,
    difference: &mut Difference,
) {
    let (old, new) = (slots(before, id.pool), slots(after, id.pool));
    for slot in 0..old.len().max(new.len()) {
        let (old, new) = (old.get(slot), new.get(slot));
        if old == new {
            continue;
        }
        // A slot whose endpoint only changed its place in the world keeps its element.
        if old.map(endpoint) != new.map(endpoint) {
            difference.removed.extend(old.map(|backend| slot_element(id, slot, backend)));
            difference.added.extend(new.map(|backend| slot_element(id, slot, backend)));
        }
        difference.removed.extend(old.into_iter().flat_map(|backend| beside(before, id, backend)));
        difference.added.extend(new.into_iter().flat_map(|backend| beside(after, id, backend)));
    }
}

/// A pool without clients has no map.
fn slots<'a>(rendered: &RenderedPort<'a>, pool: Pool) -> &'a [PlannedEndpoint] {
    if rendered.port.uses(pool) { rendered.port.pool(pool) } else { &[] }
}

fn slot_element(id: PoolId, slot: usize, backend: &PlannedEndpoint) -> Element {
    let key = Fields::new().slot(slot as u32);
    Element { set: SetName::Pool(id), key, data: Data::Endpoint(endpoint(backend)), label: None }
}

/// What an endpoint has besides its slot.
fn beside(
    rendered: &RenderedPort<'_>,
    id: PoolId,
    backend: &PlannedEndpoint,
) -> impl Iterator<Item = Element> + use<> {
    let plain = |set, key| Element { set, key, data: Data::None, label: None };
    let member = rendered.seconds.map(|_| plain(SetName::PoolMembers(id), endpoint(backend)));
    let hairpin = hairpin(rendered.port.protocol, backend).map(|key| plain(SetName::Hairpin, key));
    member.into_iter().chain(hairpin)
}
