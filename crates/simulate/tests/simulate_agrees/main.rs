//! The simulator against the kernel: the same batches, the same answers, the same elements afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod delete;
mod part;
mod wire;

use kernel::netlink::{Protocol, Socket, messages};
use kernel::netns::{Namespace, privileged_test};
use kernel::nft::{Connection, TableFamily, Transport, kernel_release};
use simulate::nft::Simulator;

use cases::{CASES, Case};
use wire::{TABLE, Wire};

/// What a batch was answered: nothing, or the message blamed and the error number.
type Answer = Option<(u32, i32)>;

/// The names of the chains and of the counters; every set with the keys of its elements, and whether each is the
/// end of an interval.
type Contents = (Vec<String>, Vec<String>, Vec<(String, Vec<(Vec<u8>, bool)>)>);

fn batch(of: fn(&mut Wire)) -> Vec<u8> {
    let mut wire = Wire::new();
    of(&mut wire);
    wire.finish()
}

fn ask_simulator(simulator: &mut Simulator, of: fn(&mut Wire)) -> Answer {
    simulator.commit_bytes(&batch(of)).err().map(|error| (error.sequence, error.errno))
}

fn ask_kernel(of: fn(&mut Wire)) -> Answer {
    let socket = Socket::open(Protocol::Netfilter).unwrap();
    socket.send(&batch(of)).unwrap();
    let mut buffer = vec![0; 4096];
    // The kernel has answered when `send` returns: silence means that nothing was refused.
    let datagram = socket.receive_arrived(&mut buffer).unwrap()?;
    let first = messages(datagram).next().unwrap();
    let errno = i32::from_ne_bytes(first.payload[..4].try_into().unwrap());
    Some((first.sequence, -errno))
}

fn contents(transport: &mut dyn Transport) -> Contents {
    let mut chains = transport.chains(TableFamily::Ip, TABLE).unwrap();
    chains.sort();
    let mut sets = transport.sets(TableFamily::Ip, TABLE).unwrap();
    sets.sort();
    let elements = sets
        .into_iter()
        .map(|set| {
            let mut elements = Vec::new();
            let mut note = |one: kernel::nft::DumpedElement<'_>| {
                elements.push((one.key.to_vec(), one.interval_end));
            };
            transport.dump_elements(TableFamily::Ip, TABLE, &set, &mut note).unwrap();
            elements.sort();
            (set, elements)
        })
        .collect();
    let mut counters = Vec::new();
    transport
        .counters(TableFamily::Ip, TABLE, &mut |counter| counters.push(counter.name.to_owned()))
        .unwrap();
    counters.sort();
    (chains, counters, elements)
}

#[test]
fn the_simulator_refuses_what_it_should() {
    let mut wrong = Vec::new();
    for Case { name, setup, batch, errno } in CASES {
        let mut simulator = Simulator::new();
        assert_eq!(ask_simulator(&mut simulator, *setup), None, "set-up of {name}");
        let before = contents(&mut simulator);
        let got = ask_simulator(&mut simulator, *batch).map_or(0, |(_, errno)| errno);
        if got != *errno {
            wrong.push(format!("{name}: errno {got}, expected {errno}"));
        }
        if got != 0 {
            assert_eq!(contents(&mut simulator), before, "{name} was refused and yet left something");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The simulator follows this release. Before 6.13 rules could read registers never loaded; before 6.11 a
/// loop had an error number of its own; what an older kernel says of intervals differs too.
const FOLLOWED: (u32, u32) = (6, 18);

#[test]
fn the_kernel_answers_the_same() {
    if let Some(release) = kernel_release().filter(|release| *release < FOLLOWED) {
        println!("SKIPPED: the simulator answers as Linux {FOLLOWED:?} does, and this is {release:?}");
        return;
    }
    privileged_test(|| {
        let namespace = Namespace::new().unwrap();
        let wrong: Vec<String> = CASES.iter().filter_map(|case| disagreement(case, &namespace)).collect();
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
    });
}

/// What a batch led to: the answer, whether the generation moved, and the elements afterwards.
type Effect = (Answer, bool, Contents);

fn disagreement(case: &Case, namespace: &Namespace) -> Option<String> {
    let simulated = in_simulator(case);
    let real = namespace.run(|| in_kernel(case));
    (real != simulated).then(|| format!("{}:\n   kernel {real:?}\nsimulator {simulated:?}", case.name))
}

fn in_simulator(case: &Case) -> Effect {
    let mut simulator = Simulator::new();
    ask_simulator(&mut simulator, case.setup);
    let before = simulator.generation().unwrap();
    let answer = ask_simulator(&mut simulator, case.batch);
    (answer, simulator.generation().unwrap() != before, contents(&mut simulator))
}

fn in_kernel(case: &Case) -> Effect {
    ask_kernel(|w| {
        w.table().delete_table(TABLE);
    });
    assert_eq!(ask_kernel(case.setup), None, "set-up of {}", case.name);
    let mut connection = Connection::open().unwrap();
    let before = connection.generation().unwrap();
    let answer = ask_kernel(case.batch);
    (answer, connection.generation().unwrap() != before, contents(&mut connection))
}
