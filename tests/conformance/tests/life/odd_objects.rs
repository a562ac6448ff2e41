//! Objects that the apiserver takes and that are not all text: no user who may write one stops those of others.

use conformance_support::log::{end_of, lines};
use conformance_support::{Service, protobuf};
use model::Family;

use crate::world::World;

/// No annotation that we look at; the value is not UTF-8.
const KEY: &str = "example.com/odd";
const VALUE: &[u8] = b"\xff\xfe";

fn annotate(world: &World, path: &str) {
    let object = world.api().get_protobuf(path).unwrap();
    world.api().update_protobuf(path, protobuf::annotated(&object, KEY, VALUE).unwrap()).unwrap();
    let again = world.api().get_protobuf(path).unwrap();
    assert!(
        again.windows(VALUE.len()).any(|bytes| bytes == VALUE),
        "{path}: the apiserver changed the annotation"
    );
}

/// On a Service and on an EndpointSlice, while the agent watches and when it starts.
pub(crate) fn annotations(world: &mut World) {
    let (odd, later, last) =
        (Service::tcp("odd", 181), Service::tcp("after-odd", 182), Service::tcp("last-odd", 183));
    world.create(odd, "a");
    let agent = world.agent("odd-objects");
    world.await_answer(odd, "a");

    annotate(world, &odd.path());
    world.create(later, "b");
    world.await_answer(later, "b");
    Family::BOTH.iter().for_each(|family| annotate(world, &odd.slice_path("1", *family)));
    world.point_at(later, "a");
    world.await_answer(later, "a");
    world.await_answer(odd, "a");
    let log = agent.log();
    assert!(lines(&log, &["Failed to list or watch the apiserver"]).is_empty(), "{}", end_of(&log));
    drop(agent);

    world.create(last, "b");
    let agent = world.agent("odd-objects-again");
    world.await_answer(last, "b");
    world.await_answer(odd, "a");
    world.point_at(odd, "b");
    world.await_answer(odd, "b");
    let log = agent.log();
    let told = lines(&log, &["an object of the apiserver"]);
    assert!(told.is_empty(), "nobody reads that annotation: {told:#?}");
    for service in [odd, later, last] {
        world.delete(service);
    }
}
