//! Policy rules: which routing table a packet is looked up in.

use std::fmt;

use super::sys::*;
use super::{LinkError, Links};
use crate::IpFamily;
use crate::netlink::{Message, attributes};

/// `struct fib_rule_hdr`.
const HEADER: usize = 12;

/// Packets whose mark has `value` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    pub value: u32,
    pub mask: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Look the packet up in this table.
    Lookup(u32),
    /// Go on at the rule of this priority, which may be added later.
    Goto(u32),
    /// Go on at the next rule: a place to go to.
    Nop,
}

/// `ip rule add pref PRIORITY [fwmark MARK] [iif INPUT] ACTION protocol PROTOCOL`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    pub family: IpFamily,
    pub priority: u32,
    pub mark: Option<Mark>,
    /// The interface that the packet came in by; `lo` means that the machine sends it.
    pub input: Option<String>,
    pub action: Action,
    /// Who made it, by a number of `/etc/iproute2/rt_protos`: 2 is the kernel, 4 an administrator.
    pub protocol: u8,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pref {}", self.priority)?;
        if let Some(mark) = self.mark {
            write!(f, " fwmark {:#x}/{:#x}", mark.value, mark.mask)?;
        }
        if let Some(input) = &self.input {
            write!(f, " iif {input}")?;
        }
        match self.action {
            Action::Lookup(table) => write!(f, " lookup {table}"),
            Action::Goto(target) => write!(f, " goto {target}"),
            Action::Nop => f.write_str(" nop"),
        }
    }
}

impl Links {
    /// Add a rule; that it is there already is fine.
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), LinkError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let added = self.change_rule(libc::RTM_NEWRULE, flags, rule, || format!("adding rule {rule}"));
        match added {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
            added => added,
        }
    }

    /// Delete a rule; that it is not there is fine.
    pub fn delete_rule(&mut self, rule: &Rule) -> Result<(), LinkError> {
        let deleted = self.change_rule(libc::RTM_DELRULE, 0, rule, || format!("deleting rule {rule}"));
        match deleted {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(()),
            deleted => deleted,
        }
    }

    /// The rules of a family, of anyone, in their order. Those that a [`Rule`] cannot express are left out.
    pub fn rules(&mut self, family: IpFamily) -> Result<Vec<Rule>, LinkError> {
        let header = header(family, 0, 0);
        match self.list(libc::RTM_GETRULE, &header, "listing policy rules", read) {
            // The kernel was started without IPv6.
            Err(error) if error.errno() == Some(libc::EAFNOSUPPORT) => Ok(Vec::new()),
            listed => listed,
        }
    }

    fn change_rule(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        rule: &Rule,
        doing: impl Fn() -> String,
    ) -> Result<(), LinkError> {
        let (action, table) = match rule.action {
            Action::Lookup(table) => (FR_ACT_TO_TBL, table),
            Action::Goto(_) => (FR_ACT_GOTO, 0),
            Action::Nop => (FR_ACT_NOP, 0),
        };
        self.command(kind, flags, &header(rule.family, table, action), doing, |message| {
            message.u32(FRA_PRIORITY, rule.priority);
            message.u8(FRA_PROTOCOL, rule.protocol);
            if let Some(mark) = rule.mark {
                message.u32(FRA_FWMARK, mark.value);
                message.u32(FRA_FWMASK, mark.mask);
            }
            if let Some(input) = &rule.input {
                message.string(FRA_IIFNAME, input);
            }
            match rule.action {
                Action::Lookup(table) => message.u32(FRA_TABLE, table),
                Action::Goto(target) => message.u32(FRA_GOTO, target),
                Action::Nop => {}
            }
        })
    }
}

fn header(family: IpFamily, table: u32, action: u8) -> [u8; HEADER] {
    // Above 255 only the attribute says which table.
    let table = u8::try_from(table).unwrap_or(libc::RT_TABLE_UNSPEC);
    [family.number(), 0, 0, 0, table, 0, 0, action, 0, 0, 0, 0]
}

pub(crate) fn read(message: &Message<'_>) -> Option<Rule> {
    let &[family, to, from, tos, table, _, _, action, a, b, c, d] = message.payload.first_chunk()?;
    let inverted = u32::from_ne_bytes([a, b, c, d]) & FIB_RULE_INVERT != 0;
    if message.kind != libc::RTM_NEWRULE || inverted || [to, from, tos] != [0; 3] {
        return None;
    }
    let (mut priority, mut value, mut mask, mut target) = (0, 0, 0, None);
    let (mut table, mut input, mut protocol) = (u32::from(table), None, 0);
    for attribute in attributes(message.payload.get(HEADER..)?) {
        match attribute.kind {
            FRA_PRIORITY => priority = attribute.u32()?,
            FRA_FWMARK => value = attribute.u32()?,
            FRA_FWMASK => mask = attribute.u32()?,
            FRA_GOTO => target = Some(attribute.u32()?),
            FRA_TABLE => table = attribute.u32()?,
            FRA_IIFNAME => input = Some(attribute.text()?.to_owned()),
            FRA_PROTOCOL => protocol = attribute.u8()?,
            // Always there; all ones if nothing is suppressed.
            FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP if attribute.u32()? == u32::MAX => {}
            FRA_PAD => {}
            _ => return None,
        }
    }
    let action = match action {
        FR_ACT_TO_TBL => Action::Lookup(table),
        FR_ACT_GOTO => Action::Goto(target?),
        FR_ACT_NOP => Action::Nop,
        _ => return None,
    };
    let mark = (mask != 0 || value != 0).then_some(Mark { value, mask });
    Some(Rule { family: IpFamily::from_number(family)?, priority, mark, input, action, protocol })
}
