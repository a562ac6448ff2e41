//! Batches, each for a fresh IPVS, and which of their commands are refused.

use kernel::ipvs::{Batch, Settings, flags};

use crate::{destination, server};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) batch: fn(&mut Batch),
    /// Places and error numbers.
    pub(crate) failures: &'static [(usize, i32)],
}

const WEB: &str = "10.96.0.1:80/tcp";
const WEB6: &str = "[fd00:96::1]:80/tcp";

fn web(batch: &mut Batch) {
    batch.new_service(server(WEB), &Settings::new("rr"));
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a server of each protocol and family",
        batch: |b| {
            for text in [WEB, "10.96.0.1:80/udp", "10.96.0.1:80/sctp", WEB6, "[fd00:96::1]:80/udp"] {
                b.new_service(server(text), &Settings::new("rr"));
            }
        },
        failures: &[],
    },
    Case {
        name: "a server twice",
        batch: |b| {
            web(b);
            b.new_service(server(WEB), &Settings::new("lc"));
        },
        failures: &[(1, libc::EEXIST)],
    },
    Case {
        name: "an unknown scheduler",
        batch: |b| {
            b.new_service(server(WEB), &Settings::new("nosuch"));
            b.new_service(server(WEB), &Settings::new(""));
            web(b);
            b.set_service(server(WEB), &Settings::new("nosuch"));
        },
        failures: &[(0, libc::ENOENT), (1, libc::ENOENT), (3, libc::ENOENT)],
    },
    Case {
        name: "a scheduler's name that is too long",
        batch: |b| {
            b.new_service(server(WEB), &Settings::new("sixteen-letters-"));
        },
        failures: &[(0, libc::EINVAL)],
    },
    Case {
        name: "no scheduler",
        batch: |b| {
            b.new_service(server(WEB), &Settings::new("none"));
        },
        failures: &[],
    },
    Case {
        name: "flags and persistence, set and cleared",
        batch: |b| {
            let settings =
                Settings::new("sh").with_flags(flags::HASH_PORT | flags::HASH_FALLBACK).persistent(77);
            b.new_service(server(WEB), &settings);
            b.new_service(server(WEB6), &settings);
            b.set_service(server(WEB6), &Settings::new("rr"));
            b.new_service(server("10.96.0.1:53/udp"), &Settings::new("rr").with_flags(flags::ALL));
        },
        failures: &[],
    },
    Case {
        name: "flags that there are not",
        batch: |b| {
            b.new_service(server(WEB), &Settings::new("rr").with_flags(u32::MAX));
        },
        failures: &[],
    },
    Case {
        name: "what is not there",
        batch: |b| {
            b.set_service(server(WEB), &Settings::new("rr"));
            b.delete_service(server(WEB));
            b.new_destination(server(WEB), destination("10.0.0.1:80"), 1);
            b.set_destination(server(WEB), destination("10.0.0.1:80"), 1);
            b.delete_destination(server(WEB), destination("10.0.0.1:80"));
            web(b);
            b.set_destination(server(WEB), destination("10.0.0.1:80"), 1);
            b.delete_destination(server(WEB), destination("10.0.0.1:80"));
        },
        failures: &[
            (0, libc::ESRCH),
            (1, libc::ESRCH),
            (2, libc::ESRCH),
            (3, libc::ESRCH),
            (4, libc::ESRCH),
            (6, libc::ENOENT),
            (7, libc::ENOENT),
        ],
    },
    Case {
        name: "destinations: added, again, changed, removed, added again",
        batch: |b| {
            web(b);
            for text in ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.1:81", "10.0.0.2:80"] {
                b.new_destination(server(WEB), destination(text), 1);
            }
            b.set_destination(server(WEB), destination("10.0.0.2:80"), 0);
            b.delete_destination(server(WEB), destination("10.0.0.1:80"));
            b.new_destination(server(WEB), destination("10.0.0.1:80"), 7);
        },
        failures: &[(4, libc::EEXIST)],
    },
    Case {
        name: "weights",
        batch: |b| {
            web(b);
            b.new_destination(server(WEB), destination("10.0.0.1:80"), i32::MAX as u32);
            b.new_destination(server(WEB), destination("10.0.0.2:80"), i32::MAX as u32 + 1);
            b.set_destination(server(WEB), destination("10.0.0.1:80"), u32::MAX);
        },
        failures: &[(2, libc::ERANGE), (3, libc::ERANGE)],
    },
    Case {
        name: "destinations that cannot be",
        batch: |b| {
            web(b);
            b.new_service(server(WEB6), &Settings::new("rr"));
            b.new_destination(server(WEB), destination("224.0.0.1:80"), 1);
            b.new_destination(server(WEB), destination("255.255.255.255:80"), 1);
            b.new_destination(server(WEB), destination("0.0.0.0:80"), 1);
            b.new_destination(server(WEB6), destination("[ff02::1]:80"), 1);
            b.new_destination(server(WEB6), destination("[::]:80"), 1);
            b.new_destination(server(WEB6), destination("[fe80::1]:80"), 1);
            b.new_destination(server(WEB6), destination("10.0.0.1:80"), 1);
            b.new_destination(server(WEB), destination("[fd00::1]:80"), 1);
            b.set_destination(server(WEB), destination("[fd00::1]:80"), 1);
            b.delete_destination(server(WEB), destination("[fd00::1]:80"));
        },
        failures: &[
            (2, libc::EINVAL),
            (3, libc::EINVAL),
            (4, libc::EINVAL),
            (5, libc::EINVAL),
            (6, libc::EINVAL),
            (7, libc::EINVAL),
            (8, libc::EINVAL),
            (9, libc::EINVAL),
            (10, libc::EINVAL),
            (11, libc::ENOENT),
        ],
    },
    Case {
        name: "a server goes with its destinations",
        batch: |b| {
            web(b);
            b.new_destination(server(WEB), destination("10.0.0.1:80"), 1);
            b.delete_service(server(WEB));
            web(b);
            b.new_destination(server(WEB), destination("10.0.0.1:80"), 2);
        },
        failures: &[],
    },
    Case {
        name: "port 0",
        batch: |b| {
            b.new_service(server("10.96.0.1:0/tcp"), &Settings::new("rr"));
            b.new_service(server("10.96.0.2:0/tcp"), &Settings::new("rr").persistent(60));
        },
        failures: &[],
    },
];
