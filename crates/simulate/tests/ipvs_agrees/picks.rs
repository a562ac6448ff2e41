//! Real connections within one namespace: which destination the kernel picks, and which the simulator.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kernel::ipvs::{Batch, Connection, Destination, Error, Settings, Transport, VirtualServer};
use kernel::link::{Links, LocalRoute, TABLE_LOCAL};
use kernel::netns::{Namespace, privileged_test};
use simulate::ipvs::{Choice, Simulator};

use crate::server;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many connections that stay open.
    Connect(usize),
    Weight(u8, u32),
    Delete(u8),
    Add(u8, u32),
    Scheduler(&'static str),
    /// Clients keep their destination; seconds.
    Persistent(u32),
    /// `expire_quiescent_template`.
    ExpireQuiescent,
}
use Step::*;

const WEB: &str = "10.96.0.1:80/tcp";
/// The destinations, by the last byte of their address.
const POOL: [u8; 3] = [1, 2, 3];

const SCRIPTS: &[(&str, &[Step])] = &[
    ("rr", &[Connect(12)]),
    ("rr", &[Connect(2), Weight(2, 0), Connect(4), Weight(2, 1), Connect(3)]),
    ("rr", &[Connect(1), Delete(3), Connect(3), Add(3, 1), Connect(5)]),
    ("rr", &[Connect(2), Delete(2), Connect(3), Add(2, 1), Connect(5)]),
    ("rr", &[Connect(3), Delete(1), Connect(3), Add(1, 1), Connect(5)]),
    ("rr", &[Connect(1), Scheduler("lc"), Connect(4), Scheduler("rr"), Connect(4)]),
    ("rr", &[Weight(1, 0), Weight(2, 0), Weight(3, 0), Connect(1), Weight(2, 1), Connect(2)]),
    ("wrr", &[Connect(7)]),
    ("wrr", &[Weight(1, 3), Weight(2, 2), Connect(12)]),
    ("lc", &[Connect(7), Weight(1, 0), Connect(4), Weight(1, 1), Connect(5)]),
    ("lc", &[Connect(4), Delete(2), Connect(2), Add(2, 1), Connect(6)]),
    ("wlc", &[Weight(1, 3), Weight(3, 0), Connect(12)]),
    ("sed", &[Weight(1, 3), Weight(2, 2), Connect(12)]),
    ("nq", &[Weight(1, 5), Connect(9)]),
    ("fo", &[Weight(2, 5), Connect(2), Weight(2, 0), Connect(2)]),
    ("ovf", &[Weight(2, 2), Connect(5)]),
    ("none", &[Connect(1)]),
    ("rr", &[Persistent(60), Connect(4), Weight(3, 0), Connect(2), Weight(3, 1), Connect(2)]),
    (
        "rr",
        &[ExpireQuiescent, Persistent(60), Connect(4), Weight(3, 0), Connect(2), Weight(3, 1), Connect(2)],
    ),
    ("rr", &[Persistent(60), Connect(2), Delete(3), Connect(3), Add(3, 1), Connect(2)]),
    ("rr", &[Persistent(60), Connect(2), Delete(3), Add(3, 1), Connect(2)]),
    ("rr", &[Connect(1), Persistent(60), Connect(2), Scheduler("rr"), Connect(3)]),
    ("lblc", &[Connect(6), Weight(3, 0), Connect(3)]),
    ("lblcr", &[Connect(9), Weight(3, 0), Connect(3), Weight(3, 1), Delete(2), Connect(3)]),
    ("dh", &[Connect(3), Delete(1), Connect(2), Delete(2), Connect(2), Add(1, 1), Add(2, 1), Connect(2)]),
    // Whom it leads to a destination of weight 0 is refused.
    ("dh", &[Weight(1, 0), Connect(1), Weight(1, 1), Weight(2, 0), Connect(1), Weight(3, 0), Connect(1)]),
    ("sh", &[Connect(3)]),
];

fn at(last: u8) -> Destination {
    Destination { address: IpAddr::from([10, 0, 0, last]), port: 8080 }
}

/// What stands behind the servers: the kernel with listeners, or the simulator alone.
trait Side {
    fn transport(&mut self) -> &mut dyn Transport;
    /// Who answered, or `None` if the connection was refused.
    fn connect(&mut self) -> Option<u8>;
    fn expire_quiescent(&mut self);
}

struct Real {
    connection: Connection,
    listeners: Vec<(u8, TcpListener)>,
    held: Vec<TcpStream>,
}

impl Real {
    /// All addresses are on the loopback interface of this namespace.
    fn new(connection: Connection) -> Real {
        let mut links = Links::open().unwrap();
        links.set_up("lo").unwrap();
        let to = "10.96.0.1/32".parse().unwrap();
        let route = LocalRoute {
            to,
            device: "lo".to_owned(),
            table: TABLE_LOCAL,
            protocol: 77,
            metric: 1024,
            source: None,
        };
        links.add_local_routes(&[route]).unwrap();
        let listeners = POOL.map(|last| {
            links.add_address("lo", format!("10.0.0.{last}/32").parse().unwrap()).unwrap();
            let listener = TcpListener::bind(SocketAddr::new(at(last).address, at(last).port)).unwrap();
            listener.set_nonblocking(true).unwrap();
            (last, listener)
        });
        Real { connection, listeners: listeners.into(), held: Vec::new() }
    }
}

impl Side for Real {
    fn expire_quiescent(&mut self) {
        kernel::sysctl::write("net/ipv4/vs/expire_quiescent_template", 1).unwrap();
    }

    fn transport(&mut self) -> &mut dyn Transport {
        &mut self.connection
    }

    fn connect(&mut self) -> Option<u8> {
        let called = server(WEB);
        let stream = TcpStream::connect((called.address, called.port)).ok()?;
        self.held.push(stream);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            for (last, listener) in &self.listeners {
                if let Ok((stream, _)) = listener.accept() {
                    self.held.push(stream);
                    return Some(*last);
                }
            }
            assert!(Instant::now() < deadline, "the connection reached nobody");
        }
    }
}

struct Simulated {
    simulator: Simulator,
    port: u16,
}

impl Side for Simulated {
    fn expire_quiescent(&mut self) {
        self.simulator.sysctls.expire_quiescent_template = true;
    }

    fn transport(&mut self) -> &mut dyn Transport {
        &mut self.simulator
    }

    fn connect(&mut self) -> Option<u8> {
        self.port += 1;
        let called: VirtualServer = server(WEB);
        let choice = self.simulator.take(called, called.address, self.port, true);
        self.simulator.establish(called, called.address, self.port);
        match choice {
            Choice::To(to) => POOL.into_iter().find(|last| at(*last) == to),
            Choice::Refused => None,
            other => panic!("{other:?}"),
        }
    }
}

fn fill(batch: &mut Batch, scheduler: &str, step: Step) {
    let web = server(WEB);
    let _place = match step {
        Weight(last, weight) => batch.set_destination(web, at(last), weight),
        Delete(last) => batch.delete_destination(web, at(last)),
        Add(last, weight) => batch.new_destination(web, at(last), weight),
        Scheduler(name) => batch.set_service(web, &Settings::new(name)),
        Persistent(seconds) => batch.set_service(web, &Settings::new(scheduler).persistent(seconds)),
        Connect(_) | ExpireQuiescent => return,
    };
}

/// Whom each connection of a script reached.
fn run(side: &mut dyn Side, scheduler: &str, script: &[Step]) -> Vec<Option<u8>> {
    let web = server(WEB);
    assert_eq!(side.transport().scheduler_available(scheduler).unwrap(), scheduler != "none");
    let mut batch = Batch::new();
    batch.new_service(web, &Settings::new(scheduler));
    for last in POOL {
        batch.new_destination(web, at(last), 1);
    }
    assert_eq!(side.transport().commit(&batch).unwrap(), []);
    let mut picks = Vec::new();
    for step in script {
        let mut batch = Batch::new();
        match *step {
            Connect(count) => picks.extend((0..count).map(|_| side.connect())),
            ExpireQuiescent => side.expire_quiescent(),
            _ => fill(&mut batch, scheduler, *step),
        }
        assert_eq!(side.transport().commit(&batch).unwrap(), []);
    }
    picks
}

fn counted(side: &mut dyn Side) -> Vec<(Destination, u32, u32, u32)> {
    let pool = side.transport().destinations(server(WEB)).unwrap();
    pool.iter().map(|one| (one.destination, one.weight, one.active, one.persistent)).collect()
}

#[test]
fn the_kernel_picks_the_same_destinations() {
    privileged_test(|| {
        let mut wrong = Vec::new();
        for (scheduler, script) in SCRIPTS {
            let real = Namespace::new().unwrap().run(|| match Connection::open() {
                Ok(connection) => {
                    let mut real = Real::new(connection);
                    Some((run(&mut real, scheduler, script), counted(&mut real)))
                }
                Err(error @ Error::NotAvailable) => {
                    println!("SKIPPED: {error}");
                    None
                }
                Err(error) => panic!("{error}"),
            });
            let Some(real) = real else { return };
            let mut simulated = Simulated { simulator: Simulator::new(), port: 1000 };
            let simulated = (run(&mut simulated, scheduler, script), counted(&mut simulated));
            if real != simulated {
                wrong.push(format!("{scheduler} {script:?}:\n   kernel {real:?}\nsimulator {simulated:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), SCRIPTS.len(), wrong.join("\n"));
    });
}

#[test]
fn round_robin_begins_with_the_one_added_last() {
    let mut simulated = Simulated { simulator: Simulator::new(), port: 1000 };
    let picks = run(&mut simulated, "rr", &[Connect(6)]);
    assert_eq!(picks, [3, 2, 1, 3, 2, 1].map(Some));
}
