//! Tables' contents as values: chains, rules, sets, elements.

use std::fmt;

use super::Expression;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableFamily {
    Ip,
    Ip6,
}

impl fmt::Display for TableFamily {
    /// As nft writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TableFamily::Ip => "ip",
            TableFamily::Ip6 => "ip6",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain<'a> {
    pub name: &'a str,
    /// A base chain hangs on a hook; any other is only reached by jump and goto.
    pub hook: Option<Hook>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    pub kind: HookKind,
    /// `NF_INET_*`.
    pub number: u32,
    pub priority: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    Filter,
    Nat,
    /// On output only: a packet whose mark changes here is routed again.
    Route,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    pub chain: &'a str,
    pub expressions: Vec<Expression<'a>>,
}

/// A set, or a map if it has data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set<'a> {
    pub name: &'a str,
    /// nft's type number: six bits a part, the first part highest. The kernel only stores it for the tool.
    pub key_type: u32,
    /// Bytes of the key: each part padded to four.
    pub key_length: u32,
    /// For maps: nft's type number and length of the data; `VERDICT` type for verdict maps.
    pub data: Option<(u32, u32)>,
    pub flags: SetFlags,
    /// Most elements; 0 = unlimited.
    pub size: u32,
    /// What the nft tool stores beside the set to print it (`typeof` declarations); may be empty.
    pub user_data: &'a [u8],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFlags {
    pub interval: bool,
    pub timeout: bool,
    /// Packets may add and delete elements.
    pub dynamic: bool,
    /// A map whose elements name counters of the table.
    pub counters: bool,
}

/// `NFT_DATA_VERDICT`, the data type of verdict maps.
pub const VERDICT: u32 = 0xffff_ff00;

/// What an element of a map holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementData<'a> {
    /// A set's element.
    None,
    Value(&'a [u8]),
    /// A verdict map's element: `goto chain`.
    Goto(&'a str),
    /// An element of a map to counters: the name of one.
    Counter(&'a str),
}
