//! Error numbers in words: what each means for the object it is about. Pure.

use std::io;

use super::describe::{Subject, SubjectKind};
use super::{CommitErrorKind, TableFamily};

/// The kind of failure, and a reason that an operator can act on.
pub(super) fn explain(subject: &Subject, family: TableFamily, errno: i32) -> (CommitErrorKind, String) {
    use CommitErrorKind as Kind;
    let (kind, reason) = match errno {
        libc::EPERM | libc::EACCES => {
            (Kind::NotPermitted, "this process lacks CAP_NET_ADMIN in the network namespace")
        }
        libc::EEXIST | libc::ENOTEMPTY => (Kind::Exists, exists(subject)),
        libc::ENOENT => return missing(subject),
        libc::EOPNOTSUPP | libc::EPROTONOSUPPORT => (Kind::Unsupported, unsupported(subject, family)),
        libc::EBUSY => (Kind::Busy, "it is still in use"),
        libc::ENFILE | libc::ENOSPC => (Kind::Full, "the set is full"),
        libc::ENOMEM | libc::ENOBUFS => (Kind::OutOfMemory, "the kernel is short of memory"),
        libc::ERESTART | libc::EAGAIN | libc::EINTR => (Kind::Interfered, "another change came in between"),
        libc::EMLINK | libc::ELOOP => (Kind::Rejected, "chains reach each other in a loop, or too deep"),
        libc::EINVAL => (Kind::Rejected, "the kernel considers it malformed, or is too old for it"),
        libc::ERANGE => (Kind::Rejected, "a number in it is out of range"),
        _ => return (Kind::Rejected, io::Error::from_raw_os_error(errno).to_string()),
    };
    (kind, reason.to_owned())
}

fn exists(subject: &Subject) -> &'static str {
    match subject.kind {
        SubjectKind::NewElement { in_map: true, .. } => "it exists already with other data",
        SubjectKind::NewElement { .. } => {
            "it exists already with other properties, or overlaps another interval"
        }
        _ => "it exists already with other properties",
    }
}

/// A batch for which there is no nf_tables is refused as a whole; a table, if only its family is missing.
fn unsupported(subject: &Subject, family: TableFamily) -> &'static str {
    match (&subject.kind, family) {
        (SubjectKind::Batch, _) => "the kernel has no nf_tables: load module nf_tables",
        (SubjectKind::Table, TableFamily::Ip) => {
            "the kernel's nf_tables has no family ip: it needs CONFIG_NF_TABLES_IPV4"
        }
        (SubjectKind::Table, TableFamily::Ip6) => {
            "the kernel's nf_tables has no family ip6: it needs CONFIG_NF_TABLES_IPV6"
        }
        _ => "this kernel does not support it",
    }
}

fn missing(subject: &Subject) -> (CommitErrorKind, String) {
    use CommitErrorKind as Kind;
    match &subject.kind {
        SubjectKind::OldElement => (Kind::Missing, "it is not there".to_owned()),
        SubjectKind::NewElement { goto: Some(chain), .. } => {
            (Kind::Missing, format!("the map or chain {chain:?} does not exist"))
        }
        SubjectKind::NewElement { .. } => {
            (Kind::Missing, "the set, or a chain or counter that an element names, does not exist".to_owned())
        }
        SubjectKind::Instruction { target: Some(target), .. } => {
            (Kind::Missing, format!("{target:?} does not exist"))
        }
        SubjectKind::Instruction { name, .. } => {
            let reason = format!("the kernel has no such instruction: load module nft_{name}");
            (Kind::Unsupported, reason)
        }
        SubjectKind::BaseChain => {
            let reason =
                "the table does not exist, or the kernel has no such chains: load module nft_chain_nat";
            (Kind::Missing, reason.to_owned())
        }
        SubjectKind::Table => (Kind::Missing, "it does not exist".to_owned()),
        SubjectKind::OldChain => (Kind::Missing, "the chain or its table does not exist".to_owned()),
        SubjectKind::Rule => (Kind::Missing, "its table or chain does not exist".to_owned()),
        SubjectKind::Set => (Kind::Missing, "the set or its table does not exist".to_owned()),
        SubjectKind::Counter => (Kind::Missing, "the counter or its table does not exist".to_owned()),
        SubjectKind::Batch | SubjectKind::Chain => (Kind::Missing, "the table does not exist".to_owned()),
    }
}

pub(super) fn errno_name(errno: i32) -> String {
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::EACCES => "EACCES",
        libc::ENOENT => "ENOENT",
        libc::EEXIST => "EEXIST",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::EBUSY => "EBUSY",
        libc::EINVAL => "EINVAL",
        libc::ERANGE => "ERANGE",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::ENFILE => "ENFILE",
        libc::ENOSPC => "ENOSPC",
        libc::ENOMEM => "ENOMEM",
        libc::ENOBUFS => "ENOBUFS",
        libc::EMLINK => "EMLINK",
        libc::ELOOP => "ELOOP",
        libc::EAGAIN => "EAGAIN",
        libc::EINTR => "EINTR",
        libc::ERESTART => "ERESTART",
        _ => return format!("errno {errno}"),
    };
    name.to_owned()
}
