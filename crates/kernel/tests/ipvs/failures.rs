//! Commands that the kernel refuses: each by its place, the others carried out.

use kernel::ipvs::{Batch, Failure, Settings, Transport};
use kernel::netns::privileged_test;

use crate::place::{destination, server, with_ipvs};

#[test]
fn each_failure_names_its_command_and_the_rest_is_done() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let (web, absent) = (server("10.96.0.1:80/tcp"), server("10.96.0.9:80/tcp"));
            let (one, two) = (destination("10.0.0.1:80"), destination("10.0.0.2:80"));
            let mut batch = Batch::new();
            let mut expected = Vec::new();
            let mut fails = |index, errno| expected.push(Failure { index, errno });
            batch.new_service(web, &Settings::new("rr"));
            fails(batch.new_service(web, &Settings::new("rr")), libc::EEXIST);
            batch.new_destination(web, one, 1);
            fails(batch.new_destination(web, one, 1), libc::EEXIST);
            fails(batch.set_destination(web, two, 1), libc::ENOENT);
            fails(batch.delete_destination(web, two), libc::ENOENT);
            fails(batch.new_destination(absent, one, 1), libc::ESRCH);
            fails(batch.set_service(absent, &Settings::new("rr")), libc::ESRCH);
            fails(batch.delete_service(absent), libc::ESRCH);
            fails(batch.new_service(absent, &Settings::new("nosuch")), libc::ENOENT);
            batch.new_destination(web, two, 2);
            assert_eq!(connection.commit(&batch).unwrap(), expected);
            assert_eq!(connection.destinations(web).unwrap().len(), 2);
            assert_eq!(
                batch.explain(expected[7]),
                "adding virtual server 10.96.0.9:80/tcp with scheduler nosuch: \
             the kernel has no scheduler nosuch; load module ip_vs_nosuch"
            );
        })
    });
}

/// The refusals of a whole send must fit in the receive buffer.
#[test]
fn a_thousand_failures_are_all_told() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let mut batch = Batch::new();
            for port in 1..=1000 {
                batch.delete_service(server(&format!("10.96.0.1:{port}/tcp")));
            }
            let failures = connection.commit(&batch).unwrap();
            let expected: Vec<_> = (0..1000).map(|index| Failure { index, errno: libc::ESRCH }).collect();
            assert_eq!(failures, expected);
        })
    });
}

#[test]
fn looking_for_a_scheduler_makes_no_server() {
    privileged_test(|| {
        with_ipvs(|connection| {
            for name in "rr wrr lc wlc lblc lblcr sh dh sed nq mh".split(' ') {
                assert!(connection.scheduler_available(name).unwrap(), "{name}");
            }
            for name in ["", "none", "nosuch", "a-name-that-is-too-long"] {
                assert!(!connection.scheduler_available(name).unwrap(), "{name}");
            }
            assert!(connection.services().unwrap().is_empty());
        })
    });
}
