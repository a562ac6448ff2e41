//! Bringing objects into the API quickly: several clients, each with a connection of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use conformance_support::{Api, paths};
use serde_json::Value;

use crate::plane::Plane;
use crate::{Failure, objects};

const CLIENTS: usize = 8;

/// Namespaces and the node, once.
pub(crate) fn foundations(plane: &Plane) -> Result<(), Failure> {
    for namespace in objects::namespaces() {
        create(plane.api(), &namespace)?;
    }
    let addresses = [sandbox::address::NODE_V4.into(), sandbox::address::NODE_V6.into()];
    create(plane.api(), &test_support::manifest::node(objects::NODE, "zone-1", &addresses))
}

/// Services and their slices, by number.
pub(crate) fn services(plane: &Plane, numbers: Range<u32>) -> Result<(), Failure> {
    let next = AtomicU32::new(numbers.start);
    let work = || -> Result<(), Failure> {
        let api = plane.another_api()?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return Ok(());
            }
            create(&api, &objects::service(number))?;
            create(&api, &objects::slice(number, 0))?;
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        let ends = clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?);
        ends.collect()
    })
}

fn create(api: &Api, object: &Value) -> Result<(), Failure> {
    api.create(&paths::collection(object), object)
        .map(drop)
        .map_err(|error| format!("creating {}: {error}", paths::object(object)).into())
}

/// Create the probes' services if they are not there, and let `pod` answer for them.
pub(crate) fn probes(plane: &Plane, pod: std::net::IpAddr) -> Result<(), Failure> {
    for number in 0..objects::PROBES {
        for object in [objects::probe_service(number), objects::probe_slice(number, pod)] {
            let path = paths::object(&object);
            if plane.api().get(&path).is_ok() {
                plane.api().delete(&path)?;
            }
            create(plane.api(), &object)?;
        }
    }
    Ok(())
}
