//! The instructions of the nf_tables machine that this crate can encode.

/// A register. 1 to 4 are 16 bytes wide; 8 to 23 are the same space in words of 4 bytes. 0 is the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Network,
    Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaKey {
    Mark,
    L4Proto,
    IifName,
    OifName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtKey {
    State,
    /// Whether the packet goes the way of the connection's first one (0) or back (1); one byte.
    Direction,
    Status,
    DestinationIp,
    DestinationIp6,
    ProtoDestination,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtDirection {
    Original,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    Equal,
    NotEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictCode<'a> {
    Accept,
    Drop,
    Return,
    Jump(&'a str),
    Goto(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    TcpReset,
    /// ICMP(v6) port unreachable.
    PortUnreachable,
}

/// What a dynset instruction does to the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynsetOp {
    Update,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression<'a> {
    Payload {
        base: Base,
        offset: u32,
        length: u32,
        to: Reg,
    },
    Meta {
        key: MetaKey,
        to: Reg,
    },
    SetMark {
        from: Reg,
    },
    /// Follow the packet from here on, if the register holds 1: what becomes of it is told to listeners.
    SetTrace {
        from: Reg,
    },
    /// The rule ends for packets above this rate.
    Limit {
        per_second: u64,
        burst: u32,
    },
    /// Load a value.
    Immediate {
        to: Reg,
        value: Vec<u8>,
    },
    Ct {
        key: CtKey,
        direction: Option<CtDirection>,
        to: Reg,
    },
    Compare {
        op: CompareOp,
        reg: Reg,
        value: Vec<u8>,
    },
    /// `to = (from & mask) ^ xor`
    Bitwise {
        from: Reg,
        to: Reg,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    NumgenRandom {
        modulus: u32,
        to: Reg,
    },
    /// Match on set membership, or load a map's data into `to` ([`Reg`] 0: take its verdict).
    Lookup {
        set: &'a str,
        key: Reg,
        to: Option<Reg>,
        invert: bool,
    },
    /// Write to or delete from a dynamic set.
    Dynset {
        set: &'a str,
        op: DynsetOp,
        key: Reg,
        data: Option<Reg>,
        timeout_ms: Option<u64>,
    },
    Verdict(VerdictCode<'a>),
    /// Destination NAT to the address and port in registers.
    Dnat {
        address: Reg,
        port: Option<Reg>,
    },
    Masquerade {
        fully_random: bool,
    },
    Reject(Reject),
    Counter,
    /// Count in this named counter.
    Count(&'a str),
    /// Count the packet in the counter that the map holds for the key; the rule ends if there is none.
    CountIn {
        map: &'a str,
        key: Reg,
    },
}
