//! What it costs to count services' traffic: packets, loads and changes with counters beside the same without,
//! in one run and in turns, because a machine's mood lasts longer than a round.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Instant;

use cluster::{EndpointRecord, Object, ObjectKey, Value};
use cluster::{Kind, SliceRecord};
use dataplane::nftables::read_traffic;
use kernel::netns::Namespace;
use kernel::nft::Connection;
use model::{Family, Protocol, SlicePort};
use sandbox::{Sandbox, SandboxSpec};

use crate::bench::{Bench, Start};
use crate::results::{CountingResult, PacketCost};
use crate::{Failure, changes, load, world};
use bench_support::gauge::{Meter, Summary, kernel_memory_kib, quantile};

const LOADS: usize = 5;
const READINGS: usize = 10;
/// Services beside the one that packets go to.
const OTHERS: u32 = 2_000;
const ROUNDS: usize = 20;
/// Bursts of a round, each short enough to meet no other work now and then.
const BURSTS: usize = 100;
const PACKETS: usize = 200;

pub(crate) fn measure(services: u32) -> Result<CountingResult, Failure> {
    let scope = load::Scope { services, ipv6: false, repetitions: 50 };
    let [without, with] = [false, true].map(|on| Namespace::new()?.try_run(|| loads(&scope, on))?);
    let (without, with) = (without?, with?);
    let packets = packets()?;
    Ok(CountingResult {
        services,
        load: [without.load, with.load],
        restart: [without.restart, with.restart],
        service_added: [without.added, with.added],
        kernel_kib: [without.kernel_kib, with.kernel_kib],
        reading: with.reading,
        packets,
    })
}

struct Loads {
    load: Summary,
    restart: Summary,
    added: Summary,
    kernel_kib: u64,
    reading: Summary,
}

fn loads(scope: &load::Scope, on: bool) -> Result<Loads, Failure> {
    let before = kernel_memory_kib();
    let mut bench = Bench::nftables(on)?;
    for number in 0..scope.services {
        bench.state.apply(world::service(Family::V4, number));
        bench.state.apply(world::slice(Family::V4, number, 0, &world::pods(number)));
    }
    let (first, _) = bench.sync()?;
    let kernel_kib = kernel_memory_kib().saturating_sub(before);
    let reading = readings()?;
    let (added, _) = changes::services(&mut bench, Family::V4, scope)?;
    let restart = Summary::of(&bench.repeat_loads(LOADS, Start::OverOld)?);
    let mut all = vec![first];
    all.extend(bench.repeat_loads(LOADS - 1, Start::Empty)?);
    bench.cleanup()?;
    Ok(Loads { load: Summary::of(&all), restart, added, kernel_kib, reading })
}

fn readings() -> Result<Summary, Failure> {
    let mut connection = Connection::open()?;
    let mut costs = Vec::new();
    for _ in 0..READINGS {
        let meter = Meter::start();
        read_traffic(&mut connection, Family::V4)?;
        costs.push(meter.stop(std::time::Duration::ZERO));
    }
    Ok(Summary::of(&costs))
}

/// Datagrams of one flow from a pod to another, through a service and past it. They are not read.
fn packets() -> Result<[PacketCost; 2], Failure> {
    let names = ["client", "server"].map(str::to_owned);
    let sandbox = Sandbox::new(&SandboxSpec { local_pods: names.into(), remote_pods: Vec::new() })?;
    let (client, server) = (sandbox.pod("client")?, sandbox.pod("server")?);
    let pod = SocketAddr::new(server.addresses()[0], world::POD_PORT);
    let _sink = server.namespace.try_run(|| UdpSocket::bind(pod))??;
    let service = SocketAddr::new(world::cluster_ip(Family::V4, OTHERS), world::SERVICE_PORT);
    let open = |to: SocketAddr| {
        let opened = client.namespace.try_run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to)?;
            Ok::<_, std::io::Error>(socket)
        });
        Ok::<_, Failure>(opened??)
    };
    sandbox.node.try_run(|| {
        switch(pod.ip(), false)?;
        let sockets = [open(service)?, open(pod)?];
        let mut rounds: [[Vec<f64>; 2]; 2] = Default::default();
        for round in 0..ROUNDS {
            let on = round % 2;
            switch(pod.ip(), on == 1)?;
            for _ in 0..BURSTS {
                for (way, socket) in sockets.iter().enumerate() {
                    rounds[way][on].push(nanoseconds_a_packet(socket)?);
                }
            }
        }
        Ok(rounds.map(|way| PacketCost {
            best_ns: way.each_ref().map(|rounds| quantile(rounds, 0.0)),
            median_ns: way.each_ref().map(|rounds| quantile(rounds, 0.5)),
        }))
    })?
}

/// Rewrite the node's rules, with counters or without.
fn switch(pod: IpAddr, on: bool) -> Result<(), Failure> {
    let mut bench = Bench::nftables(on)?;
    for number in 0..OTHERS {
        bench.state.apply(world::service(Family::V4, number));
        bench.state.apply(world::slice(Family::V4, number, 0, &world::pods(number)));
    }
    for object in udp_service(pod) {
        bench.state.apply(object);
    }
    bench.sync()?;
    Ok(())
}

fn udp_service(pod: IpAddr) -> [Object; 2] {
    let service = world::over_udp(world::service(Family::V4, OTHERS));
    let endpoint =
        EndpointRecord { ip: pod, ready: true, serving: true, terminating: false, node: None, hints: None };
    let port = SlicePort { name: world::PORT_NAME.into(), protocol: Protocol::Udp, port: world::POD_PORT };
    let record = SliceRecord {
        service: world::key(OTHERS),
        family: Family::V4,
        ports: [port].into(),
        endpoints: [endpoint].into(),
        triggered_ms: None,
    };
    let key = ObjectKey::new(Kind::EndpointSlice, &world::namespace(OTHERS), &world::slice_name(OTHERS, 0));
    [service, Object { key, value: Value::EndpointSlice(record) }]
}

fn nanoseconds_a_packet(socket: &UdpSocket) -> Result<f64, Failure> {
    let started = Instant::now();
    for _ in 0..PACKETS {
        socket.send(b"packet")?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e9 / PACKETS as f64)
}
