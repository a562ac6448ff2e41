//! The instructions of a rule as the simulator keeps them: owned, and with registers resolved to bytes.

use std::ops::Range;

use super::Errno;

/// Bytes of the register file: the verdict's 16 and 64 of data.
pub(super) const REGISTER_BYTES: usize = 80;

/// A register by the offset of its first byte. The 16-byte registers 1 to 4 and the 4-byte registers 8 to 23
/// are two names for the same 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(usize);

impl Register {
    pub(super) const VERDICT: Register = Register(0);

    pub(super) fn from_number(number: u32) -> Result<Register, Errno> {
        match number {
            0..=4 => Ok(Register(number as usize * 16)),
            8..=23 => Ok(Register((number as usize - 4) * 4)),
            _ => Err(libc::ERANGE),
        }
    }

    pub(super) fn span(self, length: usize) -> Range<usize> {
        self.0..self.0 + length
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    Continue,
    Break,
    Return,
    Jump(String),
    Goto(String),
}

impl Verdict {
    pub(super) fn target(&self) -> Option<&str> {
        match self {
            Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Datum {
    Value(Box<[u8]>),
    Verdict(Verdict),
    /// The name of a counter.
    Counter(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Network,
    Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    Mark,
    IifName,
    OifName,
    L4Proto,
}

impl Meta {
    pub(super) fn length(self) -> usize {
        match self {
            Meta::Mark => 4,
            Meta::IifName | Meta::OifName => 16,
            Meta::L4Proto => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ct {
    State,
    Direction,
    Status,
    /// The address of that length the connection was first sent to.
    OriginalDestination(usize),
    OriginalPort,
    ReplyDestination(usize),
    ReplyPort,
}

impl Ct {
    pub(super) fn length(self) -> usize {
        match self {
            Ct::State | Ct::Status => 4,
            Ct::Direction => 1,
            Ct::OriginalDestination(length) | Ct::ReplyDestination(length) => length,
            Ct::OriginalPort | Ct::ReplyPort => 2,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Add,
    Update,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    TcpReset,
    Icmp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    Payload {
        header: Header,
        offset: usize,
        length: usize,
        to: Register,
    },
    Meta {
        key: Meta,
        to: Register,
    },
    SetMark {
        from: Register,
    },
    Ct {
        key: Ct,
        to: Register,
    },
    Compare {
        op: Compare,
        from: Register,
        value: Box<[u8]>,
    },
    Bitwise {
        from: Register,
        to: Register,
        mask: Box<[u8]>,
        xor: Box<[u8]>,
    },
    Random {
        modulus: u32,
        offset: u32,
        to: Register,
    },
    Lookup {
        set: String,
        key: Register,
        to: Option<Register>,
        invert: bool,
    },
    Dynset {
        set: String,
        op: Write,
        key: Register,
        data: Option<Register>,
        timeout: Option<u64>,
        invert: bool,
    },
    Load {
        to: Register,
        value: Box<[u8]>,
    },
    Verdict(Verdict),
    Dnat {
        address: Option<Register>,
        port: Option<Register>,
    },
    Masquerade,
    Reject(Refusal),
    Counter,
    /// In this counter.
    Count(String),
    CountIn {
        map: String,
        key: Register,
    },
}

impl Instruction {
    /// The set it reads or writes.
    pub(super) fn set(&self) -> Option<&str> {
        match self {
            Instruction::Lookup { set, .. } | Instruction::Dynset { set, .. } => Some(set),
            Instruction::CountIn { map, .. } => Some(map),
            _ => None,
        }
    }
}
