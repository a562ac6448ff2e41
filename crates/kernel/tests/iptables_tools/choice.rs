//! Which of the two iptables is taken.

use kernel::iptables::{Chosen, Missing, Tables, Toolbox, Variant, Version, Why};

use kernel::netns::privileged_test;

use crate::place::{Place, in_place};

fn chosen(toolbox: &Toolbox) -> Chosen {
    let chosen = toolbox.choose().unwrap_or_else(|error| panic!("{error}"));
    assert!(chosen.missing.iter().all(Option::is_none), "{:?}", chosen.missing);
    for tools in chosen.tools.iter().flatten() {
        assert_eq!(tools.variant(), chosen.variant);
    }
    chosen
}

fn write(place: &Place, variant: Variant, is_ipv6: bool, script: &str) {
    let mut tools = place.toolbox().of(variant, is_ipv6).unwrap();
    tools.restore(script).unwrap_or_else(|error| panic!("{error}"));
}

fn loaded_tables() -> String {
    std::fs::read_to_string("/proc/thread-self/net/ip_tables_names").unwrap_or_default()
}

const HINT: &str = "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";
const CANARY: &str = "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n";
const RULES: &str = "*filter\n:A - [0:0]\n-A A -j RETURN\n-A A -j RETURN\nCOMMIT\n";

#[test]
fn kubelets_hint_decides_whatever_rules_there_are() {
    privileged_test(|| {
        for (variant, is_ipv6, hint) in [
            (Variant::Nft, false, HINT),
            (Variant::Nft, true, CANARY),
            (Variant::Legacy, false, CANARY),
            (Variant::Legacy, true, HINT),
        ] {
            in_place(|place| {
                write(place, variant.other(), false, RULES);
                write(place, variant, is_ipv6, hint);
                let chosen = chosen(&place.toolbox());
                assert_eq!(chosen.variant, variant, "{hint}");
                let expected = if hint == HINT { "KUBE-IPTABLES-HINT" } else { "KUBE-KUBELET-CANARY" };
                assert!(matches!(chosen.why, Why::Hint(chain) if chain == expected), "{:?}", chosen.why);
            });
        }
    });
}

#[test]
fn without_a_hint_it_is_the_one_with_more_rules() {
    privileged_test(|| {
        for (variant, is_ipv6) in [(Variant::Legacy, false), (Variant::Legacy, true), (Variant::Nft, true)] {
            in_place(|place| {
                write(place, variant.other(), false, "*filter\n:A - [0:0]\n-A A -j RETURN\nCOMMIT\n");
                write(place, variant, is_ipv6, RULES);
                let chosen = chosen(&place.toolbox());
                assert_eq!(chosen.variant, variant);
                assert!(matches!(chosen.why, Why::MoreRules { here: 2, there: 1 }), "{:?}", chosen.why);
            });
        }
    });
}

#[test]
fn with_nothing_to_go_by_it_is_nft_and_no_legacy_table_is_loaded() {
    privileged_test(|| {
        in_place(|place| {
            let chosen = chosen(&place.toolbox());
            assert_eq!(chosen.variant, Variant::Nft);
            assert!(matches!(chosen.why, Why::Default), "{:?}", chosen.why);
            assert!(chosen.tools.iter().flatten().all(|tools| tools.version() >= Some(Version::NEEDED)));
            assert_eq!(loaded_tables(), "");
        });
    });
}

#[test]
fn a_plain_iptables_is_what_its_version_says() {
    privileged_test(|| {
        for variant in Variant::BOTH {
            in_place(|place| {
                let ending = if variant == Variant::Nft { "nft" } else { "legacy" };
                place.link("iptables", &format!("iptables-{ending}"));
                place.link("ip6tables", &format!("ip6tables-{ending}"));
                write(place, variant.other(), false, HINT);
                let chosen = chosen(&place.own_toolbox());
                assert_eq!(chosen.variant, variant);
                assert!(matches!(chosen.why, Why::OnlyOne), "{:?}", chosen.why);
            });
        }
    });
}

#[test]
fn one_address_family_may_be_missing() {
    privileged_test(|| {
        in_place(|place| {
            place.link("iptables-nft", "iptables-nft");
            let chosen = place.own_toolbox().choose().unwrap();
            assert!(matches!(chosen.tools, [Some(_), None]));
            assert!(matches!(chosen.missing, [None, Some(Missing::NotInstalled { program: "ip6tables" })]));
        });
    });
}

#[test]
fn a_default_that_does_not_work_gives_way() {
    privileged_test(|| {
        in_place(|place| {
            let version = "case $* in --version) echo 'iptables v1.8.9 (nf_tables)';;";
            let fails =
                "*) echo 'iptables: Failed to initialize nft: Protocol not supported' >&2; exit 3;; esac";
            place.fake("iptables-nft", &format!("{version} {fails}"));
            place.link("iptables-legacy", "iptables-legacy");
            let chosen = place.own_toolbox().choose().unwrap();
            assert_eq!(chosen.variant, Variant::Legacy);
            let why = chosen.why.to_string();
            assert!(
                why.contains(
                    "iptables-nft found no tables in the kernel: iptables: Failed to initialize nft"
                ),
                "{why}"
            );
        });
    });
}
