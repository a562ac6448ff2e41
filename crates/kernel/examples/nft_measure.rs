//! What batches cost: encoding, committing with and without somebody listening, small changes, dumping.
//!
//! `cargo run --release -p pointsman-kernel --example nft_measure [services]`; five endpoints a service.

use std::error::Error;
use std::time::{Duration, Instant};

use kernel::netns::{self, Namespace};
use kernel::nft::{Batch, Connection, ElementData, Monitor, Set, SetFlags, TableFamily, Transport};

const ENDPOINTS: u32 = 5;
const TABLE: &str = "measure";

fn main() -> Result<(), Box<dyn Error>> {
    let services = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    netns::acquire()?;
    let (took, batch) = timed(|| full(services));
    println!("encode {services} services: {took:?}, {} KB", batch.len_bytes() / 1024);

    let quiet = load(&batch, Listeners::None)?;
    println!("commit, nobody listens:            {quiet:?}");
    println!("commit, our filtered monitor:      {:?}", load(&batch, Listeners::Filtered)?);
    println!("commit, a monitor without filter:  {:?}", load(&batch, Listeners::Unfiltered)?);
    small_changes(&batch)
}

#[derive(Clone, Copy, PartialEq)]
enum Listeners {
    None,
    Filtered,
    Unfiltered,
}

fn connect(
    namespace: &Namespace,
    listeners: Listeners,
) -> Result<(Connection, Option<Monitor>), Box<dyn Error>> {
    let connection = namespace.try_run(Connection::open)??;
    let port = connection.port();
    let monitor = match listeners {
        Listeners::None => None,
        Listeners::Filtered => Some(namespace.try_run(|| Monitor::open(port, None))??),
        Listeners::Unfiltered => Some(namespace.try_run(|| Monitor::open(0, None))??),
    };
    Ok((connection, monitor))
}

/// The best of five loads, each into a namespace of its own.
fn load(batch: &Batch, listeners: Listeners) -> Result<Duration, Box<dyn Error>> {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let namespace = Namespace::new()?;
        let (mut connection, _monitor) = connect(&namespace, listeners)?;
        let (took, result) = timed(|| connection.commit(batch));
        result?;
        best = best.min(took);
    }
    Ok(best)
}

fn small_changes(batch: &Batch) -> Result<(), Box<dyn Error>> {
    for (words, listeners) in
        [("nobody listens", Listeners::None), ("our filtered monitor", Listeners::Filtered)]
    {
        let namespace = Namespace::new()?;
        let (mut connection, _monitor) = connect(&namespace, listeners)?;
        connection.commit(batch)?;
        println!("swap one endpoint, {words}: {:?}", quickest_swap(&mut connection)?);
        let mut count = 0;
        let mut each = |_: kernel::nft::DumpedElement<'_>| count += 1;
        let (took, result) =
            timed(|| connection.dump_elements(TableFamily::Ip, TABLE, "endpoints", &mut each));
        result?;
        println!("dump of {count} elements: {took:?}");
    }
    Ok(())
}

/// The mean of a hundred swaps, in the quickest of many rounds: other work on the machine only adds.
fn quickest_swap(connection: &mut Connection) -> Result<Duration, Box<dyn Error>> {
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let (took, result) = timed(|| (0..100).try_for_each(|number| connection.commit(&swap(number))));
        result?;
        best = best.min(took / 100);
    }
    Ok(best)
}

fn full(services: u32) -> Batch {
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    batch.add_table("");
    batch.add_set(&Set {
        name: "endpoints",
        key_type: 7 << 18 | 12 << 12 | 13 << 6 | 19,
        key_length: 16,
        data: Some((7 << 6 | 13, 8)),
        flags: SetFlags::default(),
        size: 0,
        user_data: &[],
    });
    for service in 0..services {
        for slot in 0..ENDPOINTS {
            batch.add_element("endpoints", &key(service, slot), ElementData::Value(&endpoint(slot)), None);
        }
    }
    batch
}

/// Give the first slot of the first service another endpoint.
fn swap(round: u32) -> Batch {
    let mut batch = Batch::new(TableFamily::Ip, TABLE);
    batch.delete_element("endpoints", &key(0, 0));
    batch.add_element("endpoints", &key(0, 0), ElementData::Value(&endpoint(round)), None);
    batch
}

fn key(service: u32, slot: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&(0x0a60_0000 + service).to_be_bytes());
    key[4] = 6;
    key[8..10].copy_from_slice(&80u16.to_be_bytes());
    key[12..].copy_from_slice(&slot.to_ne_bytes());
    key
}

fn endpoint(number: u32) -> [u8; 8] {
    let [a, b, c, d] = (0x0af4_0000 + number).to_be_bytes();
    [a, b, c, d, 0x1f, 0x90, 0, 0]
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}
