//! A large table: memory stays bounded, only what matches goes. Alone in its file, because it measures the process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kernel::IpFamily;
use kernel::conntrack::{Conntrack, Filter, Flow, Tuple};
use kernel::netns::{Namespace, privileged_test};
use kernel::sysctl;

const UDP: u8 = 17;
const FLOWS: u32 = 150_000;
/// A copy of the table would take 15 MB and more.
const ROOM_KB: i64 = 3 * 1024;

/// The largest resident size since the last call to `forget_peak`.
fn peak_kb() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Every third flow goes to the endpoint that is gone.
fn flow(n: u32) -> Flow {
    let client = IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + n / 1000));
    let port = 1024 + (n % 1000) as u16;
    let endpoint = IpAddr::from([10, 244, 1, if n.is_multiple_of(3) { 1 } else { 2 }]);
    let original = Tuple::new((client, port), (IpAddr::from([10, 96, 0, 1]), 53));
    Flow::new(UDP, original, Tuple::new((endpoint, 5353), (client, port)))
}

#[test]
fn a_large_table_is_cleaned_in_little_memory() {
    privileged_test(|| {
        Namespace::new().unwrap().run(|| {
            let limit = sysctl::read("net/netfilter/nf_conntrack_max").unwrap_or_default();
            if limit.parse().unwrap_or(0) < FLOWS {
                println!("SKIPPED: nf_conntrack_max is {limit:?}, {FLOWS} flows are wanted");
                return;
            }
            let mut table = Conntrack::open().unwrap();
            for start in (0..FLOWS).step_by(1000) {
                let batch: Vec<Flow> = (start..start + 1000).map(flow).collect();
                table.insert(&batch, Duration::from_secs(3600)).unwrap();
            }
            forget_peak();
            let before = peak_kb();
            let started = Instant::now();
            let dead = IpAddr::from([10, 244, 1, 1]);
            let result =
                table.delete_where(&Filter::of(IpFamily::V4, UDP), |flow| flow.reply.src == dead).unwrap();
            let grown = peak_kb() - before;
            println!("{result:?} in {:?}, {grown} kB more", started.elapsed());

            assert_eq!(result.deleted, u64::from(FLOWS / 3));
            assert!(result.examined >= u64::from(FLOWS), "{result:?}");
            assert!(grown < ROOM_KB, "{grown} kB");
            let mut wrong = 0;
            let left = Conntrack::dump(&Filter::default(), |flow| {
                wrong += u32::from(flow.reply.src == dead);
                ControlFlow::Continue(())
            });
            assert_eq!((left.unwrap().examined, wrong), (u64::from(FLOWS - FLOWS / 3), 0));
        });
    });
}
