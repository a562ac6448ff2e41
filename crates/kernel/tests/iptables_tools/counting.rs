//! Counters that rules count in.

use std::net::UdpSocket;

use kernel::iptables::{Tables, Variant};
use kernel::netns::{Namespace, privileged_test};
use kernel::nfacct;

use crate::place::in_place;

/// Whether this kernel counts; says so if not.
fn is_there() -> bool {
    let made = nfacct::ensure("first");
    if let Err(error) = &made {
        println!("SKIPPED: {error}");
    }
    made.is_ok()
}

#[test]
fn packets_of_a_rule_are_counted_and_a_counter_made_again_keeps_its_count() {
    privileged_test(|| {
        in_place(|place| {
            for variant in Variant::BOTH {
                Namespace::new().unwrap().run(|| {
                    if !is_there() {
                        return;
                    }
                    let mut tools = place.toolbox().of(variant, false).unwrap();
                    let rule = "-A OUTPUT -p udp -m nfacct --nfacct-name first -j RETURN";
                    tools
                        .restore(&format!("*filter\n{rule}\nCOMMIT\n"))
                        .unwrap_or_else(|error| panic!("{error}"));
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    for _ in 0..7 {
                        socket.send_to(b"hello", "127.0.0.2:9").unwrap();
                    }
                    assert_eq!(nfacct::packets("first").unwrap(), Some(7), "{variant}");
                    nfacct::ensure("first").unwrap();
                    nfacct::ensure("second").unwrap();
                    assert_eq!(nfacct::packets("first").unwrap(), Some(7), "{variant}");
                    assert_eq!(nfacct::packets("second").unwrap(), Some(0), "{variant}");
                    nfacct::remove("second").unwrap();
                    nfacct::remove("second").unwrap();
                    assert_eq!(nfacct::packets("second").unwrap(), None, "{variant}");
                    assert!(nfacct::remove("first").is_err(), "{variant}: a rule counts in it");
                });
            }
        });
    });
}

#[test]
fn a_counter_is_of_one_namespace_and_has_a_name_of_31_letters() {
    privileged_test(|| {
        Namespace::new().unwrap().run(|| {
            if !is_there() {
                return;
            }
            assert_eq!(Namespace::new().unwrap().run(|| nfacct::packets("first").unwrap()), None);
            let longest = "n".repeat(31);
            nfacct::ensure(&longest).unwrap();
            assert_eq!(nfacct::packets(&longest).unwrap(), Some(0));
            assert_eq!(nfacct::packets("n").unwrap(), None);
            for wrong in ["", &"n".repeat(32)] {
                assert!(nfacct::ensure(wrong).is_err(), "{wrong:?}");
            }
        });
    });
}
