//! The flat layout as nft prints it, against the text kept in `golden/`.
//!
//! `UPDATE_GOLDEN=1` rewrites the text; look at the difference before committing it.

use std::path::Path;

use kernel::netns::privileged_test;
use kernel::nft::{TableFamily, Transport};

use crate::layout;
use crate::space::{Space, in_namespace, nft_installed};

#[test]
fn every_shape_prints_as_expected_in_ip() {
    privileged_test(|| prints_as_expected(TableFamily::Ip, include_str!("golden/ip.nft")))
}

#[test]
fn every_shape_prints_as_expected_in_ip6() {
    privileged_test(|| prints_as_expected(TableFamily::Ip6, include_str!("golden/ip6.nft")))
}

fn prints_as_expected(family: TableFamily, expected: &str) {
    if !nft_installed() {
        return;
    }
    in_namespace(|mut space| {
        space.commit(&layout::whole(family));
        let printed = space.nft(&["list", "ruleset"]);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let file = format!("tests/nft_kernel/golden/{family}.nft");
            std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &printed).expect("to write");
            return;
        }
        // Later series of nft may word rules differently; that they can read the text back is tested below.
        match nft_version(&space).starts_with("nftables v1.0.") {
            true => assert_same(&printed, expected),
            false => println!("SKIPPED: the kept text is that of nft 1.0, not of {}", nft_version(&space)),
        }
    })
}

fn nft_version(space: &Space) -> String {
    space.nft(&["--version"]).trim().to_owned()
}

/// Line by line, so that a failure shows the line and not the whole of it.
fn assert_same(printed: &str, expected: &str) {
    for (number, (got, wanted)) in printed.lines().zip(expected.lines()).enumerate() {
        assert_eq!(got, wanted, "line {}", number + 1);
    }
    assert_eq!(printed.lines().count(), expected.lines().count(), "number of lines");
}

/// Not only does nft read its text of our table: it makes the very same instructions of it.
#[test]
fn nft_reads_back_what_it_prints() {
    privileged_test(|| {
        if !nft_installed() {
            return;
        }
        // Not ip6: nft before 1.0.9 aborts when it reads map statements with keys above 16 bytes.
        let family = TableFamily::Ip;
        in_namespace(|mut space| {
            space.commit(&layout::whole(family));
            let printed = space.nft(&["list", "ruleset"]);
            let ours = instructions(&space);
            assert!(ours.len() > 400, "{ours:?}");
            let mut gone = kernel::nft::Batch::new(family, "kube-proxy");
            gone.delete_table();
            space.commit(&gone);
            space.load(&printed);
            assert_same(&space.nft(&["list", "ruleset"]), &printed);
            if nft_version(&space).starts_with("nftables v1.0.") {
                assert_eq!(instructions(&space), ours);
            }
            let json = space.nft(&["-j", "list", "ruleset"]);
            assert!(json.contains("\"nodeport-endpoints\""), "{json}");
        })
    })
}

/// Every instruction of every rule, as the kernel returns it.
fn instructions(space: &Space) -> Vec<String> {
    let listing = space.nft(&["--debug=netlink", "list", "ruleset"]);
    listing.lines().filter(|line| line.starts_with("  [ ")).map(str::to_owned).collect()
}

#[test]
fn rewriting_in_place_leaves_the_same() {
    privileged_test(|| {
        if !nft_installed() {
            return;
        }
        for family in [TableFamily::Ip, TableFamily::Ip6] {
            in_namespace(|mut space| {
                space.commit(&layout::whole(family));
                let before = space.nft(&["list", "ruleset"]);
                let sets = space.connection.sets(family, "kube-proxy").expect("sets");
                let mut flush = kernel::nft::Batch::new(family, "kube-proxy");
                flush.flush_rules();
                sets.iter().for_each(|set| flush.flush_set(set));
                space.commit(&flush);
                let empty = space.nft(&["list", "ruleset"]);
                assert!(!empty.contains("elements"), "{empty}");
                assert!(!empty.contains("goto"), "{empty}");
                space.commit(&layout::whole(family));
                assert_same(&space.nft(&["list", "ruleset"]), &before);
            })
        }
    })
}
