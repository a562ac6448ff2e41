//! One message about a packet that is followed.

use super::super::decode;
use super::super::sys::*;
use super::packet::Packet;
use crate::netlink::Message;

/// A rule that a packet matched, or the end of a chain that it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The same for all steps of a packet, and for hardly any other.
    pub id: u32,
    /// `NFPROTO_*` of the table.
    pub family: u8,
    pub table: &'a str,
    pub chain: &'a str,
    /// The handle of the rule.
    pub rule: Option<u64>,
    /// This rule, or the policy of the chain, drops the packet; a reject is a drop that answers.
    pub is_dropped: bool,
    /// As it looks at this hook: with the first step there.
    pub packet: Option<Packet>,
    /// The index of the interface through which it came in, with the first step there.
    pub interface: Option<u32>,
}

impl<'a> Step<'a> {
    pub(super) fn read(message: &Message<'a>) -> Option<Step<'a>> {
        let family = *message.payload.first()?;
        let (mut id, mut table, mut chain, mut rule, mut kind) = (None, None, None, None, None);
        let (mut verdict, mut policy, mut interface) = (None, None, None);
        let (mut network, mut transport) = (None, None);
        for part in decode::body(message) {
            match part.kind {
                NFTA_TRACE_ID => id = part.be32(),
                NFTA_TRACE_TABLE => table = part.text(),
                NFTA_TRACE_CHAIN => chain = part.text(),
                NFTA_TRACE_RULE_HANDLE => rule = part.be64(),
                NFTA_TRACE_TYPE => kind = part.be32(),
                NFTA_TRACE_POLICY => policy = part.be32(),
                NFTA_TRACE_IIF => interface = part.be32(),
                NFTA_TRACE_NETWORK_HEADER => network = Some(part.value),
                NFTA_TRACE_TRANSPORT_HEADER => transport = Some(part.value),
                NFTA_TRACE_VERDICT => {
                    verdict =
                        part.nested().find(|part| part.kind == NFTA_VERDICT_CODE).and_then(|code| code.be32())
                }
                _ => {}
            }
        }
        let decided = match kind? {
            NFT_TRACETYPE_RULE => verdict,
            NFT_TRACETYPE_POLICY => policy,
            _ => None,
        };
        Some(Step {
            id: id?,
            family,
            table: table?,
            chain: chain?,
            rule,
            // The upper bits of a drop may hold an error number.
            is_dropped: decided.is_some_and(|code| code & 0xff == NF_DROP as u32),
            packet: network.and_then(|network| Packet::read(network, transport)),
            interface,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Writer, messages};

    fn message(kind: u32, code: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        let start = writer.begin(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_TRACE, 0, 0, &[2, 0, 0, 0]);
        writer.be32(NFTA_TRACE_ID, 7);
        writer.be32(NFTA_TRACE_TYPE, kind);
        writer.string(NFTA_TRACE_TABLE, "t");
        writer.string(NFTA_TRACE_CHAIN, "c");
        writer.be64(NFTA_TRACE_RULE_HANDLE, 5);
        let nest = writer.nest(NFTA_TRACE_VERDICT);
        writer.be32(NFTA_VERDICT_CODE, code as u32);
        writer.end_nest(nest);
        writer.be32(NFTA_TRACE_POLICY, NF_DROP as u32);
        let mut header = [0; 20];
        (header[0], header[9]) = (0x45, 17);
        writer.attribute(NFTA_TRACE_NETWORK_HEADER, &header);
        writer.attribute(NFTA_TRACE_TRANSPORT_HEADER, &[0, 1, 0, 2]);
        writer.be32(NFTA_TRACE_IIF, 3);
        writer.end(start);
        writer.bytes().to_vec()
    }

    fn read(bytes: &[u8]) -> Option<Step<'_>> {
        messages(bytes).next().and_then(|message| Step::read(&message))
    }

    #[test]
    fn a_step_says_where_the_packet_is_and_whether_it_ends() {
        let bytes = message(NFT_TRACETYPE_RULE, NF_DROP);
        let step = read(&bytes).unwrap();
        assert_eq!((step.id, step.table, step.chain, step.rule), (7, "t", "c", Some(5)));
        assert_eq!((step.is_dropped, step.interface, step.packet.unwrap().dport), (true, Some(3), 2));
        assert!(!read(&message(NFT_TRACETYPE_RULE, NFT_GOTO)).unwrap().is_dropped);
        assert!(!read(&message(NFT_TRACETYPE_RULE, NF_ACCEPT)).unwrap().is_dropped);
        assert!(read(&message(NFT_TRACETYPE_POLICY, NF_ACCEPT)).unwrap().is_dropped, "by the policy");
        assert!(!read(&message(2, NF_DROP)).unwrap().is_dropped, "a return");
    }

    #[test]
    fn cut_messages_are_read_without_panic() {
        let whole = message(NFT_TRACETYPE_RULE, NF_DROP);
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            if let Some(place) = cut.first_chunk_mut::<4>() {
                *place = (length as u32).to_ne_bytes();
            }
            assert!(read(&cut).is_none_or(|step| step.id == 7), "{length}");
        }
    }
}
