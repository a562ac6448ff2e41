//! Many changes at once: in the end there is what the API says, and nothing else.

use std::collections::BTreeSet;
use std::net::IpAddr;

use conformance_support::paths;
use conformance_support::site::{Expect, SOON};
use model::Family;
use serde_json::Value;
use test_support::wait_until;
use test_support::world::{Range, address_in};

use super::nft;
use super::stage::{At, Stage};

const NUMBERS: std::ops::Range<u16> = 100..150;

/// All are created; two out of three are deleted again, and one out of six comes back with another endpoint.
pub(crate) fn come_and_go(stage: &Stage) {
    let name = |number: u16| format!("burst-{number}");
    let goes = |number: u16| !number.is_multiple_of(3);
    let comes_back = |number: u16| number % 6 == 1;
    for number in NUMBERS {
        stage.web(&name(number), number).create().serve_by(&["a"]);
    }
    for number in NUMBERS.filter(|number| goes(*number)) {
        stage.web(&name(number), number).delete();
    }
    for number in NUMBERS.filter(|number| comes_back(*number)) {
        stage.web(&name(number), number).create().serve_by(&["b"]);
    }
    for family in Family::BOTH {
        let wanted = in_api(stage, family);
        assert_eq!(wanted.len(), NUMBERS.filter(|n| !goes(*n) || comes_back(*n)).count());
        let mut found = BTreeSet::new();
        let equal = wait_until(SOON, || {
            found = in_kernel(stage, family);
            found == wanted
        });
        assert!(equal, "the API has {wanted:?}, the kernel {found:?}");
    }
    for number in NUMBERS {
        let (kept, name) = (!goes(number), name(number));
        let web = stage.web(&name, number);
        match (kept, comes_back(number)) {
            (true, _) => web.expect(At::Cluster, Expect::By(&["a"])),
            (false, true) => web.expect(At::Cluster, Expect::By(&["b"])),
            // The kernel was asked for these already, and silence takes long.
            (false, false) => {}
        }
    }
    for number in NUMBERS.filter(|number| !goes(*number) || comes_back(*number)) {
        stage.web(&name(number), number).delete();
    }
    for family in Family::BOTH {
        assert!(wait_until(SOON, || in_kernel(stage, family).is_empty()), "{:?}", in_kernel(stage, family));
    }
}

/// Cluster IPs of this case that services of the API have.
fn in_api(stage: &Stage, family: Family) -> BTreeSet<IpAddr> {
    let services = stage.api().list(paths::SERVICES).unwrap();
    let ips = services.iter().flat_map(|service| {
        let ips = service.pointer("/spec/clusterIPs").and_then(Value::as_array).into_iter().flatten();
        ips.filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok())
    });
    let own = own(family);
    ips.filter(|ip| own.contains(ip)).collect()
}

/// Those that stand anywhere in our table.
fn in_kernel(stage: &Stage, family: Family) -> BTreeSet<IpAddr> {
    let text = nft::table(stage.site.node(), family);
    let words = text.split(|c: char| c.is_whitespace() || c == ',');
    let own = own(family);
    words.filter_map(|word| word.parse::<IpAddr>().ok()).filter(|ip| own.contains(ip)).collect()
}

fn own(family: Family) -> BTreeSet<IpAddr> {
    NUMBERS.map(|number| address_in(Range::Cluster, number, family)).collect()
}
