//! From bytes to requests. Written apart from the encoder, so that an error there cannot cancel out here.
//!
//! Errors are those the kernel gives to a malformed message. What a rule contains is in `decode_rule`.

use kernel::netlink::{Attribute, Message, attributes};
use kernel::nft::sys::*;
use kernel::nft::{HookKind, TableFamily};

use super::Errno;
use super::instruction::{Datum, Verdict};

const NAME_LIMIT: usize = 255;
/// `NFT_DATA_VALUE_MAXLEN`.
const VALUE_LIMIT: usize = 64;
const FAMILY_IP: u8 = 2;
const FAMILY_IP6: u8 = 10;

/// The attributes of a message or nest, by number.
pub(super) struct Fields<'a>(Vec<Attribute<'a>>);

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields(attributes(bytes).collect())
    }

    pub(super) fn get(&self, kind: u16) -> Option<&Attribute<'a>> {
        // The kernel lets the last of two win.
        self.0.iter().rev().find(|attribute| attribute.kind == kind)
    }

    pub(super) fn nest(&self, kind: u16) -> Option<Fields<'a>> {
        self.get(kind).map(|attribute| Fields::of(attribute.value))
    }

    pub(super) fn number(&self, kind: u16) -> Result<Option<u32>, Errno> {
        self.get(kind).map(|attribute| attribute.be32().ok_or(libc::ERANGE)).transpose()
    }

    pub(super) fn long(&self, kind: u16) -> Result<Option<u64>, Errno> {
        self.get(kind).map(|attribute| attribute.be64().ok_or(libc::ERANGE)).transpose()
    }

    pub(super) fn name(&self, kind: u16) -> Result<Option<&'a str>, Errno> {
        let Some(attribute) = self.get(kind) else { return Ok(None) };
        match attribute.text() {
            Some(text) if text.len() > NAME_LIMIT => Err(libc::ERANGE),
            Some(text) => Ok(Some(text)),
            None => Err(libc::EINVAL),
        }
    }

    pub(super) fn bytes(&self, kind: u16) -> Box<[u8]> {
        self.get(kind).map(|attribute| attribute.value.into()).unwrap_or_default()
    }
}

/// One request of a batch: family, `NFT_MSG_*`, flags and attributes.
pub(super) struct Request<'a> {
    pub(super) family: TableFamily,
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) fields: Fields<'a>,
}

pub(super) fn request<'a>(message: &Message<'a>) -> Result<Request<'a>, Errno> {
    let header: &[u8; 4] = message.payload.first_chunk().ok_or(libc::EINVAL)?;
    if message.kind >> 8 != NFNL_SUBSYS_NFTABLES || i32::from(message.flags) & libc::NLM_F_REQUEST == 0 {
        return Err(libc::EINVAL);
    }
    let family = match header[0] {
        FAMILY_IP => TableFamily::Ip,
        FAMILY_IP6 => TableFamily::Ip6,
        _ => return Err(libc::EAFNOSUPPORT),
    };
    let fields = Fields::of(message.payload.get(4..).unwrap_or_default());
    Ok(Request { family, kind: message.kind & 0xff, flags: message.flags, fields })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    pub(super) kind: HookKind,
    pub(super) number: u32,
    pub(super) priority: i32,
    pub(super) accept: bool,
}

impl Hook {
    pub(super) fn is_nat(&self) -> bool {
        self.kind == HookKind::Nat
    }
}

/// Nat chains exist on prerouting, input, output and postrouting, route chains on output; filter chains on all five.
const FILTER_HOOKS: u32 = 0b11111;
const NAT_HOOKS: u32 = 0b11011;
const ROUTE_HOOKS: u32 = 0b01000;
/// `NF_IP_PRI_CONNTRACK`: a nat chain needs to come after it.
const CONNTRACK_PRIORITY: i32 = -200;

pub(super) fn hook(fields: &Fields<'_>) -> Result<Option<Hook>, Errno> {
    let accept = match fields.number(NFTA_CHAIN_POLICY)?.map(|policy| policy as i32) {
        None | Some(NF_ACCEPT) => true,
        Some(NF_DROP) => false,
        Some(_) => return Err(libc::EINVAL),
    };
    let Some(nest) = fields.nest(NFTA_CHAIN_HOOK) else { return Ok(None) };
    let number = nest.number(NFTA_HOOK_HOOKNUM)?.ok_or(libc::ENOENT)?;
    let priority = nest.number(NFTA_HOOK_PRIORITY)?.ok_or(libc::ENOENT)? as i32;
    let (kind, hooks) = match fields.name(NFTA_CHAIN_TYPE)? {
        None | Some("filter") => (HookKind::Filter, FILTER_HOOKS),
        Some("nat") => (HookKind::Nat, NAT_HOOKS),
        Some("route") => (HookKind::Route, ROUTE_HOOKS),
        Some(_) => return Err(libc::ENOENT),
    };
    let early = kind == HookKind::Nat && priority <= CONNTRACK_PRIORITY;
    if number > 4 || hooks & 1 << number == 0 || early {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(Some(Hook { kind, number, priority, accept }))
}

/// What makes two declarations of a set the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetLayout {
    pub(super) flags: u32,
    pub(super) key_type: u32,
    pub(super) key_length: usize,
    pub(super) data: Option<DataLayout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataLayout {
    Verdict,
    Value { kind: u32, length: usize },
}

impl SetLayout {
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// nft's type number of the data.
    pub(super) fn data_type(&self) -> u32 {
        match self.data {
            Some(DataLayout::Value { kind, .. }) => kind,
            Some(DataLayout::Verdict) | None => 0,
        }
    }

    pub(super) fn data_length(&self) -> usize {
        match self.data {
            Some(DataLayout::Value { length, .. }) => length,
            Some(DataLayout::Verdict) | None => 0,
        }
    }
}

pub(super) struct SetDeclaration {
    pub(super) layout: SetLayout,
    /// 0 if it names none.
    pub(super) size: usize,
    pub(super) timeout: Option<u64>,
}

/// Anonymous sets, constant sets and concatenated ranges exist in the kernel but not here.
const SET_FLAGS: u32 = NFT_SET_INTERVAL | NFT_SET_MAP | NFT_SET_TIMEOUT | NFT_SET_EVAL | NFT_SET_OBJECT;

pub(super) fn set(fields: &Fields<'_>) -> Result<SetDeclaration, Errno> {
    let flags = fields.number(NFTA_SET_FLAGS)?.unwrap_or_default();
    let key_length = fields.number(NFTA_SET_KEY_LEN)?.ok_or(libc::EINVAL)? as usize;
    fields.number(NFTA_SET_ID)?.ok_or(libc::EINVAL)?;
    if key_length == 0 || key_length > VALUE_LIMIT {
        return Err(libc::EINVAL);
    }
    if flags & !SET_FLAGS != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    check_counters(fields, flags)?;
    let timeout = fields.long(NFTA_SET_TIMEOUT)?;
    if timeout.is_some() && flags & NFT_SET_TIMEOUT == 0 {
        return Err(libc::EINVAL);
    }
    let size = match fields.nest(NFTA_SET_DESC) {
        Some(description) => description.number(NFTA_SET_DESC_SIZE)?.unwrap_or_default() as usize,
        None => 0,
    };
    let key_type = fields.number(NFTA_SET_KEY_TYPE)?.unwrap_or_default();
    let layout = SetLayout { flags, key_type, key_length, data: data_layout(fields, flags)? };
    Ok(SetDeclaration { layout, size, timeout })
}

/// A map to objects says to which; here they are counters.
fn check_counters(fields: &Fields<'_>, flags: u32) -> Result<(), Errno> {
    let is_map = flags & NFT_SET_OBJECT != 0;
    match fields.number(NFTA_SET_OBJ_TYPE)? {
        Some(NFT_OBJECT_COUNTER) if is_map && flags & (NFT_SET_MAP | NFT_SET_EVAL) == 0 => Ok(()),
        Some(_) if is_map => Err(libc::EOPNOTSUPP),
        None if !is_map => Ok(()),
        Some(_) | None => Err(libc::EINVAL),
    }
}

fn data_layout(fields: &Fields<'_>, flags: u32) -> Result<Option<DataLayout>, Errno> {
    let is_map = flags & NFT_SET_MAP != 0;
    match fields.number(NFTA_SET_DATA_TYPE)? {
        None if is_map => Err(libc::EINVAL),
        None => Ok(None),
        Some(_) if !is_map => Err(libc::EINVAL),
        Some(NFT_DATA_VERDICT) => Ok(Some(DataLayout::Verdict)),
        Some(kind) => match fields.number(NFTA_SET_DATA_LEN)? {
            Some(length) if length > 0 && length as usize <= VALUE_LIMIT => {
                Ok(Some(DataLayout::Value { kind, length: length as usize }))
            }
            _ => Err(libc::EINVAL),
        },
    }
}

pub(super) struct ElementFields {
    pub(super) key: Box<[u8]>,
    pub(super) interval_end: bool,
    pub(super) data: Option<Datum>,
    pub(super) timeout: Option<u64>,
    pub(super) expiration: Option<u64>,
    pub(super) user_data: Box<[u8]>,
}

pub(super) fn element(bytes: &[u8]) -> Result<ElementFields, Errno> {
    let fields = Fields::of(bytes);
    let flags = fields.number(NFTA_SET_ELEM_FLAGS)?.unwrap_or_default();
    if flags & !NFT_SET_ELEM_INTERVAL_END != 0 || fields.get(NFTA_SET_ELEM_KEY_END).is_some() {
        return Err(libc::EOPNOTSUPP);
    }
    let Datum::Value(key) = datum(&fields, NFTA_SET_ELEM_KEY)?.ok_or(libc::EINVAL)? else {
        return Err(libc::EINVAL);
    };
    Ok(ElementFields {
        key,
        interval_end: flags & NFT_SET_ELEM_INTERVAL_END != 0,
        data: element_data(&fields)?,
        timeout: fields.long(NFTA_SET_ELEM_TIMEOUT)?,
        expiration: fields.long(NFTA_SET_ELEM_EXPIRATION)?,
        user_data: fields.bytes(NFTA_SET_ELEM_USERDATA),
    })
}

fn element_data(fields: &Fields<'_>) -> Result<Option<Datum>, Errno> {
    match fields.name(NFTA_SET_ELEM_OBJREF)? {
        Some(_) if fields.get(NFTA_SET_ELEM_DATA).is_some() => Err(libc::EINVAL),
        Some(name) => Ok(Some(Datum::Counter(name.to_owned()))),
        None => datum(fields, NFTA_SET_ELEM_DATA),
    }
}

/// A `NFTA_DATA_*` nest.
pub(super) fn datum(fields: &Fields<'_>, kind: u16) -> Result<Option<Datum>, Errno> {
    let Some(nest) = fields.nest(kind) else { return Ok(None) };
    if let Some(value) = nest.get(NFTA_DATA_VALUE) {
        return match value.value.len() {
            0 => Err(libc::EINVAL),
            length if length > VALUE_LIMIT => Err(libc::EOVERFLOW),
            _ => Ok(Some(Datum::Value(value.value.into()))),
        };
    }
    let fields = nest.nest(NFTA_DATA_VERDICT).ok_or(libc::EINVAL)?;
    let code = fields.number(NFTA_VERDICT_CODE)?.ok_or(libc::EINVAL)? as i32;
    let chain = fields.name(NFTA_VERDICT_CHAIN)?.map(str::to_owned);
    let verdict = match code {
        NF_ACCEPT => Verdict::Accept,
        NF_DROP => Verdict::Drop,
        NFT_CONTINUE => Verdict::Continue,
        NFT_BREAK => Verdict::Break,
        NFT_RETURN => Verdict::Return,
        NFT_JUMP => Verdict::Jump(chain.ok_or(libc::EINVAL)?),
        NFT_GOTO => Verdict::Goto(chain.ok_or(libc::EINVAL)?),
        _ => return Err(libc::EINVAL),
    };
    Ok(Some(Datum::Verdict(verdict)))
}
