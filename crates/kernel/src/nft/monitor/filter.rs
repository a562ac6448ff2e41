//! The socket filter that keeps away what is of no interest, in classic BPF: our own commits, and what others do to
//! tables that are not ours. What it drops takes no room in the receive buffer, so that a large commit to another
//! table cannot crowd out news of ours.
//!
//! Classic BPF has no loops: it looks at so many messages of a datagram, one after the other, and lets a datagram
//! through that has more. It drops only what it is sure of.

use std::io;

use super::super::sys::{NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN, NFTA_TABLE_NAME};
use crate::netlink::Socket;

pub(in crate::nft) type Instruction = libc::sock_filter;

/// How closely the filter looks, best choice first: at how many messages of a datagram, and whether at the end of the name
/// or only at its length. A page of notifications about set elements holds up to sixty. The filter must fit into
/// `net.core.optmem_max`, which is 20 KiB before Linux 6.7.
const LOOKS: [Look; 4] = [
    Look { messages: 128, at_name: true },
    Look { messages: 76, at_name: false },
    Look { messages: 32, at_name: false },
    Look { messages: 0, at_name: false },
];

#[derive(Clone, Copy)]
struct Look {
    messages: usize,
    at_name: bool,
}

const TYPE_OFFSET: u32 = 4;
const PORT_OFFSET: u32 = 12;
/// `nlmsghdr` and `nfgenmsg`.
const ATTRIBUTE_OFFSET: u32 = 16 + 4;

pub(in crate::nft) const DROP: Instruction = instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0);
pub(in crate::nft) const PASS: Instruction = instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX);

/// Drop every datagram whose first message was caused by the socket of that port (all messages of a datagram come
/// from one commit), and if a table is given, every one that says nothing of tables of that name.
pub(super) fn attach(socket: &Socket, port: u32, table: Option<&str>) -> io::Result<()> {
    let mut outcome = Ok(());
    for look in LOOKS {
        outcome = socket.attach_filter(&program(port, table.filter(|_| look.messages > 0), look));
        if outcome.as_ref().err().and_then(io::Error::raw_os_error) != Some(libc::ENOMEM) {
            break;
        }
    }
    outcome
}

const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code: code as u16, jt, jf, k }
}

fn program(port: u32, table: Option<&str>, look: Look) -> Vec<Instruction> {
    let mut program = vec![
        load(libc::BPF_W | libc::BPF_ABS, PORT_OFFSET),
        // BPF loads in network byte order; headers are in the host's.
        equals(port.to_be(), 0, 1),
        DROP,
    ];
    if let Some(table) = table {
        let generation = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWGEN;
        program.extend([
            load(libc::BPF_H | libc::BPF_ABS, TYPE_OFFSET),
            // It says who committed, and comes alone.
            equals(generation.to_be().into(), 0, 1),
            PASS,
            instruction(libc::BPF_LDX | libc::BPF_IMM, 0, 0, 0),
        ]);
        let look_at_one = look_at_message(table, look.at_name);
        (0..look.messages).for_each(|_| program.extend(&look_at_one));
    }
    program.push(PASS);
    program
}

/// With the offset of a message in X: drop if there is none, pass if it is about the table, go on behind it otherwise.
/// Loads take the most room, so that of the name at most the end is compared: a stranger may pass, ours always does.
fn look_at_message(table: &str, at_name: bool) -> Vec<Instruction> {
    // The attribute's header, the name and its NUL; names of tables are short.
    let length = u16::try_from(4 + table.len() + 1).unwrap_or(u16::MAX);
    let header = (u32::from(length.to_be()) << 16) | u32::from(NFTA_TABLE_NAME.to_be());
    // A load behind the end drops the datagram: it is read, and too little is left to name a table.
    let mut look = vec![load(libc::BPF_W | libc::BPF_IND, ATTRIBUTE_OFFSET)];
    let end = table.as_bytes().last_chunk::<4>().filter(|_| at_name);
    if let Some(end) = end {
        let at = ATTRIBUTE_OFFSET + u32::from(length) - 1 - 4;
        let compare = [load(libc::BPF_W | libc::BPF_IND, at), equals(u32::from_be_bytes(*end), 0, 4), PASS];
        look.push(equals(header, 0, skip(&compare)));
        look.extend(compare);
    } else {
        look.push(equals(header, 2, 0));
    }
    // Every message about a table begins with its name. Whatever does not is for others to judge.
    look.extend([
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xffff),
        equals(NFTA_TABLE_NAME.to_be().into(), 1, 0),
        PASS,
    ]);
    look.extend(step_on());
    look
}

/// Add the message's length to X, rounded up to a multiple of four.
fn step_on() -> Vec<Instruction> {
    let alu = |operation, k| instruction(libc::BPF_ALU | operation | libc::BPF_K, 0, 0, k);
    // The length is in the host's byte order; a datagram is shorter than 64 KiB.
    let mut step = match cfg!(target_endian = "little") {
        // Twice side by side, shifted by one byte: the two bytes have changed places.
        true => {
            vec![load(libc::BPF_H | libc::BPF_IND, 0), alu(libc::BPF_MUL, 0x10001), alu(libc::BPF_RSH, 8)]
        }
        false => vec![load(libc::BPF_W | libc::BPF_IND, 0)],
    };
    step.extend([
        alu(libc::BPF_ADD, 3),
        alu(libc::BPF_AND, 0xfffc),
        instruction(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0, 0, 0),
        instruction(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0),
    ]);
    step
}

pub(in crate::nft) fn load(how: u32, at: u32) -> Instruction {
    instruction(libc::BPF_LD | how, 0, 0, at)
}

/// Skip so many instructions if what was loaded is equal, so many if not.
pub(in crate::nft) fn equals(value: u32, if_equal: u8, if_not: u8) -> Instruction {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, if_equal, if_not, value)
}

/// A distance over a few instructions.
fn skip(instructions: &[Instruction]) -> u8 {
    u8::try_from(instructions.len()).unwrap_or(u8::MAX)
}
