//! The monitor: others' commits are reported, ours and the packets' are not.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use kernel::netlink::{Protocol, Socket, messages};
use kernel::netns::privileged_test;
use kernel::nft::*;

use crate::space::{Space, batch, in_namespace};

const NFNLGRP_NFTABLES: u32 = 7;
const DEADLINE: Option<Duration> = Some(Duration::from_secs(30));

const NUMBERS: Set<'_> = Set {
    name: "numbers",
    key_type: 19,
    key_length: 4,
    data: None,
    flags: SetFlags { interval: false, timeout: false, dynamic: false, counters: false },
    size: 0,
    user_data: &[],
};

fn monitor(space: &Space) -> Monitor {
    monitor_of(space, None)
}

fn monitor_of(space: &Space, table: Option<&str>) -> Monitor {
    let port = space.connection.port();
    space.namespace.run(|| Monitor::open(port, table)).expect("a monitor")
}

fn stranger(space: &Space) -> Connection {
    space.namespace.run(Connection::open).expect("a connection")
}

/// What has been told by now, less by whom. Commits tell before they return, so there is nothing to wait for.
fn told(monitor: &mut Monitor) -> Notification {
    match monitor.wait(Some(Duration::ZERO)).expect("to wait") {
        Notification::Tables(mut tables) => {
            tables.iter_mut().for_each(|table| assert!(table.by.take().is_some(), "nobody: {table:?}"));
            Notification::Tables(tables)
        }
        other => other,
    }
}

fn numbers(count: u32) -> Batch {
    let mut batch = batch();
    batch.add_table("");
    batch.add_set(&NUMBERS);
    for number in 0..count {
        batch.add_element("numbers", &number.to_ne_bytes(), ElementData::None, None);
    }
    batch
}

fn table(family: TableFamily, name: &str) -> ChangedTable {
    ChangedTable { family, table: name.to_owned(), by: None }
}

#[test]
fn only_commits_of_others_are_told() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let mut monitor = monitor(&space);
            let mut stranger = stranger(&space);
            space.commit(&numbers(200));
            assert_eq!(told(&mut monitor), Notification::Nothing);
            let mut other = Batch::new(TableFamily::Ip6, "theirs");
            other.add_table("");
            stranger.commit(&other).expect("a commit");
            assert_eq!(told(&mut monitor), Notification::Tables(vec![table(TableFamily::Ip6, "theirs")]));
            stranger.commit(&numbers(201)).expect("a commit");
            let mut both = Batch::new(TableFamily::Ip6, "theirs");
            both.delete_table();
            stranger.commit(&both).expect("a commit");
            let expected = vec![table(TableFamily::Ip, "test"), table(TableFamily::Ip6, "theirs")];
            assert_eq!(told(&mut monitor), Notification::Tables(expected));
            assert_eq!(told(&mut monitor), Notification::Nothing);
        })
    })
}

#[test]
fn each_kind_of_change_is_told() {
    privileged_test(|| {
        for table in [None, Some("test")] {
            each_kind(table);
        }
    })
}

fn each_kind(watched: Option<&str>) {
    in_namespace(|mut space| {
        space.commit(&numbers(0));
        let mut monitor = monitor_of(&space, watched);
        let mut stranger = stranger(&space);
        let changes: [fn(&mut Batch); 7] = [
            |batch| batch.add_chain(&Chain { name: "chain", hook: None }),
            |batch| {
                let expressions = vec![Expression::Counter];
                batch.add_rule(&Rule { chain: "chain", expressions });
            },
            |batch| batch.flush_rules(),
            |batch| batch.add_set(&Set { name: "more", ..NUMBERS }),
            |batch| batch.add_element("more", &[0; 4], ElementData::None, None),
            |batch| batch.flush_set("more"),
            |batch| batch.delete_table(),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut batch = batch();
            change(&mut batch);
            stranger.commit(&batch).expect("a commit");
            let expected = Notification::Tables(vec![table(TableFamily::Ip, "test")]);
            assert_eq!(told(&mut monitor), expected, "change {number}");
        }
    })
}

/// Half a million objects of other tables come and go without crowding out, or looking like, word of ours.
#[test]
fn a_large_commit_to_another_table_takes_no_room() {
    privileged_test(|| {
        for is_old in [false, true] {
            in_namespace(|space| {
                let mut monitor = ours(&space, is_old);
                let mut stranger = stranger(&space);
                for name in ["theirs", "kube-proxies", "x"] {
                    stranger.commit(&elements_of(name, 200_000)).expect("a commit");
                    assert_eq!(told(&mut monitor), Notification::Nothing, "{name}");
                }
                stranger.commit(&elements_of("kube-proxy", 1)).expect("a commit");
                assert_eq!(
                    told(&mut monitor),
                    Notification::Tables(vec![table(TableFamily::Ip, "kube-proxy")])
                );
            })
        }
    })
}

/// A monitor with the room for its filter that kernels have, or had before 6.7. Where a namespace has no limit of its own,
/// that of the machine holds either way.
fn ours(space: &Space, is_old: bool) -> Monitor {
    if is_old {
        let _ = space.namespace.run(|| std::fs::write("/proc/sys/net/core/optmem_max", "20480"));
    }
    monitor_of(space, Some("kube-proxy"))
}

fn elements_of(table: &str, count: u32) -> Batch {
    let mut batch = Batch::new(TableFamily::Ip, table);
    batch.add_table("");
    batch.add_set(&NUMBERS);
    for number in 0..count {
        batch.add_element("numbers", &number.to_ne_bytes(), ElementData::None, None);
    }
    batch
}

/// Whatever stands before it in the same commit.
#[test]
fn our_table_is_found_among_others_and_its_changer_named() {
    privileged_test(|| {
        if !crate::space::nft_installed() {
            return;
        }
        for is_old in [false, true] {
            in_namespace(|space| {
                let mut monitor = ours(&space, is_old);
                for before in [0, 1, 5, 20, 50, 71, 72, 73, 100, 1000] {
                    let mut input = String::from("add table ip theirs\nadd table ip6 kube-proxy\n");
                    (0..before).for_each(|n| input += &format!("add chain ip theirs c{n}\n"));
                    input += "add chain ip6 kube-proxy ours\n";
                    (0..before).for_each(|n| input += &format!("add chain ip theirs d{n}\n"));
                    space.load(&input);
                    let Notification::Tables(tables) = monitor.wait(Some(Duration::ZERO)).expect("to wait")
                    else {
                        panic!("nothing told with {before} chains before")
                    };
                    let ours = tables.iter().find(|table| table.table == "kube-proxy").expect("our table");
                    assert_eq!(ours.family, TableFamily::Ip6);
                    let by = ours.by.as_ref().expect("who did it");
                    assert_eq!(by.name, "nft");
                    assert_eq!(by.to_string(), format!("nft (pid {})", by.pid));
                    space.load("delete table ip theirs; delete table ip6 kube-proxy");
                    assert!(matches!(
                        monitor.wait(Some(Duration::ZERO)).expect("to wait"),
                        Notification::Tables(_)
                    ));
                }
            })
        }
    })
}

#[test]
fn a_changer_is_named_by_the_number_and_name_of_its_thread() {
    privileged_test(|| {
        in_namespace(|space| {
            let mut monitor = monitor_of(&space, Some("test"));
            let mut stranger = stranger(&space);
            let thread = std::thread::Builder::new().name("meddler".into()).spawn(move || {
                stranger.commit(&numbers(1)).expect("a commit");
                let link = std::fs::read_link("/proc/thread-self").expect("a number");
                link.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).expect("a number")
            });
            let number = thread.expect("a thread").join().expect("a commit");
            let Notification::Tables(tables) = monitor.wait(DEADLINE).expect("to wait") else {
                panic!("nothing")
            };
            let by = tables[0].by.as_ref().expect("who did it");
            assert_eq!(by.name, "meddler");
            // Inside a PID namespace of its own this test has another number than the kernel gives.
            if is_in_initial_pid_namespace() {
                assert_eq!(by.pid, number);
            }
        })
    })
}

/// The inode of the first namespace is fixed.
fn is_in_initial_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

#[test]
fn all_messages_of_a_datagram_carry_the_port_of_the_committer() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let mut second = stranger(&space);
            let listener = space.namespace.run(|| Socket::open(Protocol::Netfilter)).expect("a socket");
            listener.reserve_receive_buffer(64 << 20).expect("a buffer");
            listener.join(NFNLGRP_NFTABLES).expect("to join");
            space.commit(&numbers(500));
            let mut theirs = Batch::new(TableFamily::Ip, "theirs");
            theirs.add_table("");
            second.commit(&theirs).expect("a commit");
            listener.set_receive_timeout(DEADLINE).expect("a timeout");
            let mut buffer = Vec::new();
            let mut ports = Vec::new();
            while ports.last() != Some(&second.port()) {
                let datagram = listener.receive(&mut buffer).expect("a datagram");
                let mut of_datagram: Vec<u32> = messages(datagram).map(|message| message.port).collect();
                of_datagram.dedup();
                assert_eq!(of_datagram.len(), 1, "ports of one datagram: {of_datagram:?}");
                ports.extend(of_datagram);
            }
            ports.dedup();
            assert_eq!(ports, [space.connection.port(), second.port()]);
        })
    })
}

/// A packet of the namespace writes an element that expires at once; neither is anybody's commit.
#[test]
fn packets_and_expiry_are_not_told() {
    privileged_test(|| {
        in_namespace(|mut space| {
            let flags = SetFlags { timeout: true, dynamic: true, ..SetFlags::default() };
            let mut load = batch();
            load.add_table("");
            load.add_set(&Set { name: "seen", key_type: 13, key_length: 2, flags, size: 100, ..NUMBERS });
            let hook = Hook { kind: HookKind::Filter, number: 3, priority: 0 };
            load.add_chain(&Chain { name: "output", hook: Some(hook) });
            let port = Expression::Payload { base: Base::Transport, offset: 2, length: 2, to: Reg(8) };
            let (set, op, key, data) = ("seen", DynsetOp::Update, Reg(8), None);
            let write = Expression::Dynset { set, op, key, data, timeout_ms: Some(100) };
            load.add_rule(&Rule { chain: "output", expressions: vec![port, write] });
            space.commit(&load);
            let mut monitor = monitor(&space);
            let deadline = Instant::now() + Duration::from_secs(30);
            while elements(&mut space.connection) == 0 {
                assert!(Instant::now() < deadline, "no packet writes an element");
                space.namespace.run(send_a_packet);
            }
            while elements(&mut space.connection) > 0 {
                assert!(Instant::now() < deadline, "the elements do not expire");
            }
            assert_eq!(told(&mut monitor), Notification::Nothing);
        })
    })
}

fn send_a_packet() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    // Nothing listens there; a second packet would learn that as an error.
    socket.send_to(b"x", "127.0.0.1:9").expect("to send");
}

fn elements(connection: &mut Connection) -> usize {
    let mut count = 0;
    connection.dump_elements(TableFamily::Ip, "test", "seen", &mut |_| count += 1).expect("a dump");
    count
}

/// Commit a hundred times without listening, then listen.
fn fits_no_more(monitor: &mut Monitor, stranger: &mut Connection) -> bool {
    for _ in 0..100 {
        let mut batch = numbers(2000);
        batch.delete_table();
        stranger.commit(&batch).expect("a commit");
    }
    told(monitor) == Notification::Overrun
}

#[test]
fn too_much_to_hold_is_an_overrun() {
    privileged_test(|| {
        in_namespace(|space| {
            let mut monitor = monitor(&space);
            let mut stranger = stranger(&space);
            let deadline = Instant::now() + Duration::from_secs(60);
            while !fits_no_more(&mut monitor, &mut stranger) {
                assert!(Instant::now() < deadline, "the receive buffer holds everything");
            }
            let mut next = Batch::new(TableFamily::Ip, "next");
            next.add_table("");
            stranger.commit(&next).expect("a commit");
            assert_eq!(told(&mut monitor), Notification::Tables(vec![table(TableFamily::Ip, "next")]));
        })
    })
}

#[test]
fn a_stopper_ends_the_waiting() {
    privileged_test(|| {
        in_namespace(|space| {
            let mut monitor = monitor(&space);
            let stopper = monitor.stopper();
            let waiting = std::thread::spawn(move || monitor.wait(None).expect("to wait"));
            stopper.stop();
            assert_eq!(waiting.join().expect("the thread"), Notification::Stopped);
        })
    })
}
