//! Connections as IPVS counts them, within one namespace.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kernel::ipvs::{Batch, Connection, Destination, DumpedDestination, Settings, Statistics, Transport};
use kernel::link::{Links, LocalRoute, TABLE_LOCAL};
use kernel::netns::privileged_test;

use crate::place::{server, told, with_ipvs};

const WEB: &str = "10.96.0.1:80/tcp";

fn only(connection: &mut Connection) -> DumpedDestination {
    connection.destinations(server(WEB)).unwrap()[0]
}

/// The counters of a server, the estimator permitting: the kernel adds them up every two seconds.
fn counted(connection: &mut Connection) -> Statistics {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let statistics = connection.service(server(WEB)).unwrap().unwrap().statistics;
        if statistics.connections > 0 {
            return statistics;
        }
        assert!(Instant::now() < deadline, "the connection was not counted");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn connections_and_counters_are_those_of_ipvsadm() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let mut links = Links::open().unwrap();
            links.set_up("lo").unwrap();
            links.add_address("lo", "10.0.0.1/32".parse().unwrap()).unwrap();
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
            let to = Destination { address: IpAddr::from([10, 0, 0, 1]), port: 8080 };
            let mut batch = Batch::new();
            batch.new_service(server(WEB), &Settings::new("rr").persistent(60));
            batch.new_destination(server(WEB), to, 1);
            assert_eq!(connection.commit(&batch).unwrap(), []);

            let listener = TcpListener::bind(SocketAddr::new(to.address, to.port)).unwrap();
            let _ours = TcpStream::connect("10.96.0.1:80").unwrap();
            let _theirs = listener.accept().unwrap();
            let found = only(connection);
            assert_eq!((found.active, found.inactive, found.persistent), (1, 0, 1));

            let statistics = counted(connection);
            assert_eq!(statistics.connections, 1);
            assert!(
                statistics.in_packets >= 2 && statistics.in_bytes > statistics.in_packets,
                "{statistics:?}"
            );
            assert_eq!(only(connection).statistics, statistics);
            let Some(said) = told("ipvsadm", "-Ln --stats --exact") else { return };
            let Statistics { connections, in_packets, out_packets, in_bytes, out_bytes } = statistics;
            let numbers = format!("{connections} {in_packets} {out_packets} {in_bytes} {out_bytes}");
            let line = said.lines().find(|line| line.starts_with("TCP")).unwrap_or_default();
            let line: Vec<&str> = line.split_whitespace().skip(2).collect();
            assert_eq!(line.join(" "), numbers, "{said}");
        });
    });
}
