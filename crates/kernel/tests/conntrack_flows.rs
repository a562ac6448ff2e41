//! Flows as real packets make them, and as the kernel lets them be deleted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;
use std::net::{IpAddr, UdpSocket};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::time::Duration;

use kernel::IpFamily;
use kernel::conntrack::{Conntrack, ConntrackError, Filter, Flow, Listed, Tuple, status};
use kernel::link::{Links, Veth};
use kernel::netns::{Namespace, privileged_test};
use kernel::sysctl;

const TCP: u8 = 6;
const UDP: u8 = 17;
const LONG: Duration = Duration::from_secs(3600);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn udp(client: &str, port: u16, service: &str, endpoint: &str) -> Flow {
    let original = Tuple::new((ip(client), port), (ip(service), 53));
    let reply = Tuple::new((ip(endpoint), 5353), (ip(client), port));
    Flow::new(UDP, original, reply)
}

fn all(filter: Filter) -> Vec<Flow> {
    let mut flows = Vec::new();
    let listed = Conntrack::dump(&filter, |flow| {
        flows.push(*flow);
        ControlFlow::Continue(())
    });
    assert_eq!(listed.unwrap(), Listed { examined: flows.len() as u64, complete: true });
    flows
}

fn any() -> Vec<Flow> {
    all(Filter::default())
}

/// Run the body in a namespace of its own, unless this kernel has no ctnetlink.
fn with_table(body: impl FnOnce() + Send) {
    Namespace::new().unwrap().run(|| {
        match Conntrack::dump(&Filter::default(), |_| ControlFlow::Continue(())) {
            Err(error @ ConntrackError::Absent) => println!("SKIPPED: {error}"),
            other => {
                other.unwrap();
                body();
            }
        }
    });
}

fn nft(namespace: &Namespace, rules: &str) -> Result<(), String> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    namespace.enter(&mut command).unwrap();
    let mut child = command.spawn().map_err(|e| format!("the nft tool cannot be run: {e}"))?;
    child.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn a_rewritten_udp_flow_is_listed_and_deleted() {
    privileged_test(|| {
        let (client, server) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        for namespace in [&client, &server] {
            namespace.run(|| sysctl::write("net/ipv6/conf/default/accept_dad", 0).unwrap());
        }
        let rules = "add table inet t
\
                     add chain inet t c { type nat hook prerouting priority dstnat; }
\
                     add rule inet t c udp dport 53 redirect to :5353
";
        if let Err(why) = nft(&server, rules) {
            println!("SKIPPED: {why}");
            return;
        }
        let veth = Veth { name: "left", index: 100, peer_name: "right", peer_namespace: &server };
        client.run(|| Links::open().unwrap().create_veth(&veth).unwrap());
        for (namespace, link, host) in [(&client, "left", 1), (&server, "right", 2)] {
            namespace.run(|| {
                let mut links = Links::open().unwrap();
                links.set_up(link).unwrap();
                links.add_address(link, format!("10.1.0.{host}/24").parse().unwrap()).unwrap();
                links.add_address(link, format!("fd00:1::{host}/64").parse().unwrap()).unwrap();
            });
        }
        for (namespace, link) in [(&client, "left"), (&server, "right")] {
            namespace.run(|| Links::open().unwrap().await_ready(link, Duration::from_secs(10)).unwrap());
        }
        for (here, there, family) in
            [("10.1.0.1", "10.1.0.2", IpFamily::V4), ("fd00:1::1", "fd00:1::2", IpFamily::V6)]
        {
            let receiver = server.run(|| UdpSocket::bind((ip(there), 5353))).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let sender = client.run(|| UdpSocket::bind((ip(here), 4000))).unwrap();
            sender.send_to(b"x", (ip(there), 53)).unwrap();
            receiver.recv_from(&mut [0; 8]).unwrap();

            let filter = Filter::of(family, UDP);
            let flows = server.run(|| all(filter));
            assert_eq!(flows.len(), 1, "{flows:?}");
            assert_eq!(flows[0].original, Tuple::new((ip(here), 4000), (ip(there), 53)));
            assert_eq!(flows[0].reply, Tuple::new((ip(there), 5353), (ip(here), 4000)));
            assert_ne!(flows[0].status & status::DST_NAT, 0);
            assert_eq!(flows[0].status & status::SEEN_REPLY, 0);
            assert_eq!(flows[0].family(), family);
            server.run(|| {
                let mut table = Conntrack::open().unwrap();
                assert!(table.delete(&flows[0]).unwrap());
                assert!(!table.delete(&flows[0]).unwrap());
                assert_eq!(all(filter), []);
            });
        }
    });
}

#[test]
fn everything_inserted_is_read_back() {
    privileged_test(|| {
        with_table(|| {
            let tuple = Tuple::new((ip("10.0.0.1"), 1000), (ip("10.96.0.1"), 80));
            let flow =
                Flow { tcp_state: Some(3), mark: 7, zone: 9, ..Flow::new(TCP, tuple, tuple.reversed()) };
            Conntrack::open().unwrap().insert(&[flow], LONG).unwrap();
            let read = any();
            assert_eq!(read.len(), 1);
            let wanted = Flow { id: read[0].id, status: read[0].status, ..flow };
            assert_eq!(read[0], wanted);
            assert_ne!(read[0].id, 0);
            assert!(Conntrack::open().unwrap().delete(&read[0]).unwrap(), "the zone must be found");
        });
    });
}

#[test]
fn filters_by_family_and_protocol() {
    privileged_test(|| {
        with_table(|| {
            let mut flows = Vec::new();
            for (client, service) in [("10.0.0.1", "10.96.0.1"), ("fd00::1", "fd00:96::1")] {
                for protocol in [TCP, UDP] {
                    flows.push(Flow { protocol, ..udp(client, 1000, service, service) });
                }
            }
            Conntrack::open().unwrap().insert(&flows, LONG).unwrap();
            assert_eq!(any().len(), 4);
            for family in [None, Some(IpFamily::V4), Some(IpFamily::V6)] {
                for protocol in [None, Some(TCP), Some(UDP)] {
                    let found = all(Filter { family, protocol, unanswered: false });
                    let wanted = family.map_or(2, |_| 1) * protocol.map_or(2, |_| 1);
                    assert_eq!(found.len(), wanted, "{family:?} {protocol:?}");
                }
            }
        });
    });
}

#[test]
fn filters_flows_that_were_never_answered() {
    privileged_test(|| {
        with_table(|| {
            let asked = udp("10.0.0.1", 1000, "10.96.0.1", "10.244.1.1");
            let answered = udp("10.0.0.1", 1001, "10.96.0.1", "10.244.1.1");
            let answered = Flow { status: status::SEEN_REPLY, ..answered };
            Conntrack::open().unwrap().insert(&[asked, answered], LONG).unwrap();
            let found = all(Filter { unanswered: true, ..Filter::of(IpFamily::V4, UDP) });
            assert_eq!(found.iter().map(|flow| flow.original.sport).collect::<Vec<_>>(), [1000]);
        });
    });
}

#[test]
fn a_listing_can_be_stopped_and_begun_again() {
    privileged_test(|| {
        with_table(|| {
            let flows: Vec<Flow> = (1..5000).map(|p| udp("10.0.0.1", p, "10.96.0.1", "10.244.1.1")).collect();
            let mut table = Conntrack::open().unwrap();
            table.insert(&flows, LONG).unwrap();
            let stopped = Conntrack::dump(&Filter::default(), |_| ControlFlow::Break(())).unwrap();
            assert_eq!(stopped, Listed { examined: 1, complete: false });
            assert_eq!(any().len(), flows.len());
        });
    });
}

/// Between listing and deleting, the client's next packet may have created the flow again.
#[test]
fn a_new_flow_to_another_endpoint_is_not_hit() {
    privileged_test(|| {
        with_table(|| {
            let mut table = Conntrack::open().unwrap();
            let (old, new) = (
                udp("10.0.0.1", 1000, "10.96.0.1", "10.244.1.1"),
                udp("10.0.0.1", 1000, "10.96.0.1", "10.244.1.2"),
            );
            let mut same_id = 0;
            // The kernel likes to use a freed entry again, and then gives the same id; try until it has.
            for _ in 0..50 {
                table.insert(&[old], LONG).unwrap();
                let listed = any()[0];
                assert!(table.delete(&listed).unwrap());
                table.insert(&[new], LONG).unwrap();
                let current = any()[0];
                same_id += u32::from(current.id == listed.id);
                assert!(!table.delete(&listed).unwrap(), "hit the new flow");
                assert!(table.delete(&current).unwrap());
            }
            println!("the kernel gave the same id {same_id} times of 50");
        });
    });
}

#[test]
fn only_what_is_picked_is_deleted() {
    privileged_test(|| {
        with_table(|| {
            let mut table = Conntrack::open().unwrap();
            let dead = |p| udp("10.0.0.1", p, "10.96.0.1", "10.244.1.1");
            let live = |p| udp("10.0.0.2", p, "10.96.0.1", "10.244.1.2");
            let flows: Vec<Flow> =
                (1..1000).flat_map(|p| [dead(p), live(p), Flow { protocol: TCP, ..dead(p) }]).collect();
            table.insert(&flows, LONG).unwrap();
            let result = table
                .delete_where(&Filter::of(IpFamily::V4, UDP), |flow| flow.reply.src == ip("10.244.1.1"))
                .unwrap();
            assert_eq!((result.deleted, result.gone, result.busy), (999, 0, 0));
            assert_eq!((result.examined, result.complete), (2 * 999, true));
            let left = any();
            assert_eq!(left.len(), 2 * 999);
            assert!(left.iter().all(|f| f.protocol == TCP || f.reply.src == ip("10.244.1.2")));
            let v6 = table.delete_where(&Filter::of(IpFamily::V6, UDP), |_| true).unwrap();
            assert_eq!(v6.examined, 0);
        });
    });
}

/// The whole batch comes back refused, and that is no error.
#[test]
fn flows_that_end_by_themselves_meanwhile_are_counted_apart() {
    privileged_test(|| {
        with_table(|| {
            let flows: Vec<Flow> =
                (1..1000).map(|p| udp("fd00::1", p, "fd00:96::1", "fd00:244::1")).collect();
            let (mut table, mut other) = (Conntrack::open().unwrap(), Conntrack::open().unwrap());
            table.insert(&flows, LONG).unwrap();
            let result = table
                .delete_where(&Filter::of(IpFamily::V6, UDP), |flow| other.delete(flow).unwrap())
                .unwrap();
            assert_eq!((result.deleted, result.gone), (0, 999));
            assert_eq!(any(), []);
        });
    });
}

#[test]
fn without_the_right_to_it_the_error_says_so() {
    privileged_test(|| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "unprivileged_dump", "--ignored", "--nocapture"]);
        std::os::unix::process::CommandExt::uid(&mut command, 65534);
        let Ok(output) = Namespace::new().unwrap().run(|| command.output()) else {
            println!("SKIPPED: no other user can be taken on here, or the test binary not be read by it");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("CAP_NET_ADMIN is missing"), "{text}");
    });
}

#[test]
#[ignore = "a part of the test above, which runs it as another user"]
fn unprivileged_dump() {
    let denied = Conntrack::dump(&Filter::default(), |_| ControlFlow::Break(()));
    println!("{}", denied.unwrap_err());
}
