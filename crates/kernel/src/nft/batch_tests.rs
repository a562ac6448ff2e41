//! The bytes of batches, and how elements share messages.

use super::*;
use crate::netlink::{Message, messages};
use crate::nft::decode;
use crate::nft::{Hook, HookKind, SetFlags, VERDICT};

const MAP: Set<'_> = Set {
    name: "map",
    key_type: 19,
    key_length: 4,
    data: Some((7, 4)),
    flags: SetFlags { interval: false, timeout: false, dynamic: false, counters: false },
    size: 0,
    user_data: &[],
};

fn batch() -> Batch {
    Batch::new(TableFamily::Ip, "t")
}

/// Little-endian machines only: netlink headers are in the host's byte order.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.chunks(4).map(|word| word.iter().map(|b| format!("{b:02x}")).collect::<String>() + " ").collect()
}

/// The attributes of the only message, behind its headers.
fn attributes_of(batch: &Batch) -> String {
    let message = content(batch).next().unwrap();
    assert_eq!(content(batch).count(), 1);
    hexadecimal(&message.payload[4..])
}

fn content(batch: &Batch) -> impl Iterator<Item = Message<'_>> {
    messages(batch.bytes()).filter(|message| message.kind >> 8 == NFNL_SUBSYS_NFTABLES)
}

#[test]
#[cfg(target_endian = "little")]
fn an_empty_batch_is_a_begin_and_an_end() {
    let batch = batch();
    assert!(batch.is_empty());
    assert_eq!(
        hexadecimal(batch.bytes()),
        "14000000 10000100 01000000 00000000 0000000a 14000000 11000100 02000000 00000000 0000000a "
    );
}

#[test]
fn every_batch_is_framed_and_numbered_and_asks_for_one_answer() {
    let mut batch = batch();
    batch.add_table("");
    batch.add_set(&MAP);
    batch.add_element("map", &[0; 4], ElementData::Value(&[0; 4]), None);
    batch.add_element("map", &[1; 4], ElementData::Value(&[0; 4]), None);
    let all: Vec<_> = messages(batch.bytes()).collect();
    let kinds: Vec<_> = all.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, [NFNL_MSG_BATCH_BEGIN, 0xa00, 0xa09, 0xa0c, NFNL_MSG_BATCH_END]);
    let numbers: Vec<_> = all.iter().map(|message| message.sequence).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let answered = all.iter().filter(|message| message.flags & NLM_F_ACK != 0);
    assert_eq!(answered.map(|message| message.sequence).collect::<Vec<_>>(), [2]);
    assert_eq!(all.iter().map(|message| message.payload.len() + 16).sum::<usize>(), batch.len_bytes());
}

#[test]
#[cfg(target_endian = "little")]
fn a_table_has_its_comment_as_user_data() {
    let mut batch = batch();
    batch.add_table("hi");
    assert_eq!(attributes_of(&batch), "06000100 74000000 09000600 00036869 00000000 ");
}

#[test]
#[cfg(target_endian = "little")]
fn a_base_chain_has_hook_policy_and_type() {
    let hook = Hook { kind: HookKind::Nat, number: 4, priority: -100 };
    let mut batch = batch();
    batch.add_chain(&Chain { name: "c", hook: Some(hook) });
    assert_eq!(
        attributes_of(&batch),
        "06000100 74000000 06000300 63000000 \
         14000480 08000100 00000004 08000200 ffffff9c 08000500 00000001 08000700 6e617400 "
    );
}

#[test]
#[cfg(target_endian = "little")]
fn sets_carry_what_their_kind_needs() {
    let mut verdicts = batch();
    verdicts.add_set(&Set { data: Some((VERDICT, 0)), ..MAP });
    assert_eq!(
        attributes_of(&verdicts),
        "06000100 74000000 08000200 6d617000 08000300 00000008 08000400 00000013 08000500 00000004 \
         08000600 ffffff00 08000a00 00000001 "
    );
    let flags = SetFlags { timeout: true, dynamic: true, interval: false, counters: false };
    let mut dynamic = batch();
    dynamic.add_set(&Set { flags, size: 65536, user_data: &[0, 1, 2], ..MAP });
    assert_eq!(
        attributes_of(&dynamic),
        "06000100 74000000 08000200 6d617000 08000300 00000038 08000400 00000013 08000500 00000004 \
         08000600 00000007 08000700 00000004 0c000980 08000100 00010000 08000a00 00000001 \
         07000d00 00010200 "
    );
}

#[test]
#[cfg(target_endian = "little")]
fn an_element_is_key_data_and_comment() {
    let mut batch = batch();
    batch.add_element("map", &[1, 2, 3, 4], ElementData::Goto("c"), Some("x"));
    assert_eq!(
        attributes_of(&batch),
        "06000100 74000000 08000200 6d617000 34000380 30000180 0c000180 08000100 01020304 \
         18000280 14000280 08000100 fffffffc 06000200 63000000 08000600 00027800 "
    );
}

#[test]
fn elements_of_one_kind_and_set_share_messages_below_64_kilobytes() {
    let mut batch = batch();
    for number in 0..50_000u32 {
        batch.add_element("map", &number.to_be_bytes(), ElementData::Value(&[0; 4]), None);
    }
    let mut expected = 0u32;
    for message in content(&batch) {
        assert!(message.payload.len() < 1 << 16);
        for element in decode::elements(&message) {
            assert_eq!(element.key, expected.to_be_bytes());
            expected += 1;
        }
    }
    assert_eq!(expected, 50_000);
    assert!(content(&batch).count() < 50);
}

#[test]
fn another_kind_or_set_takes_a_message_of_its_own() {
    let mut batch = batch();
    batch.delete_element("a", &[0; 4]);
    batch.delete_element("a", &[1; 4]);
    batch.add_element("a", &[0; 4], ElementData::None, None);
    batch.add_element("b", &[0; 4], ElementData::None, None);
    batch.flush_set("b");
    batch.add_element("b", &[0; 4], ElementData::None, None);
    let counts: Vec<_> =
        content(&batch).map(|message| (message.kind & 0xff, decode::elements(&message).count())).collect();
    let (new, delete) = (NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM);
    assert_eq!(counts, [(delete, 2), (new, 1), (new, 1), (delete, 0), (new, 1)]);
}

#[test]
fn an_interval_starts_before_it_ends() {
    let mut batch = batch();
    batch.add_interval("s", &[10, 0, 0, 0], Some(&[11, 0, 0, 0]));
    batch.add_interval("s", &[224, 0, 0, 0], None);
    let found: Vec<_> = content(&batch)
        .flat_map(|message| {
            decode::elements(&message).map(|one| (one.key[0], one.interval_end)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(found, [(10, false), (11, true), (224, false)]);
}

#[test]
fn long_comments_are_cut_between_characters() {
    let comment = |text: &str| {
        let mut batch = batch();
        batch.add_element("s", &[0; 4], ElementData::None, Some(text));
        let message = content(&batch).next().unwrap();
        decode::elements(&message).next().unwrap().comment.unwrap().to_owned()
    };
    assert_eq!(comment(&"x".repeat(127)), "x".repeat(127));
    assert_eq!(comment(&"x".repeat(500)), "x".repeat(127));
    assert_eq!(comment(&("x".repeat(126) + "ü")), "x".repeat(126));
    assert_eq!(comment(""), "");
}
