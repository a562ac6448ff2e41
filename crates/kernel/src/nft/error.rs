//! Errors of commits and questions, in words for an operator.

use std::fmt;
use std::io;

use super::Batch;
use super::decode::Answer;
use super::describe::{self, Subject};
use super::reason::{errno_name, explain};

/// Why a batch was not committed. Nothing of it took effect, except where the kind says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitError {
    pub kind: CommitErrorKind,
    /// What failed, such as `adding element 0a600001 06000000 00500000 (default/web:http) to map "service-ips"`.
    pub object: String,
    /// What is wrong with it and, where something can be done, what.
    pub reason: String,
    pub errno: i32,
    /// Whether the same batch may succeed when it is sent again.
    pub retryable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitErrorKind {
    NotPermitted,
    /// The batch exceeds the send buffer, and the limit cannot be lifted from within a container.
    TooLarge,
    /// The kernel, or a module that it could not load, lacks something.
    Unsupported,
    Exists,
    Missing,
    Busy,
    /// A set has no room for more elements.
    Full,
    OutOfMemory,
    /// Another process committed in between.
    Interfered,
    /// Answers did not arrive: the batch may have been committed, or not.
    Unanswered,
    /// The kernel finds the object malformed, or says something not listed here.
    Rejected,
}

impl CommitError {
    /// The kernel answered one message of the batch with an error.
    pub(crate) fn refused(batch: &Batch, answer: &Answer) -> CommitError {
        let subject = describe::subject(batch, answer.sequence, answer.offset);
        let (kind, mut reason) = explain(&subject, batch.family(), answer.errno);
        if let Some(text) = &answer.text {
            reason = format!("{reason}; the kernel says: {text}");
        }
        CommitError::new(kind, subject, reason, answer.errno)
    }

    /// The error for the batch's message of that number: what a stand-in for the kernel returns.
    pub fn of_message(batch: &Batch, sequence: u32, errno: i32) -> CommitError {
        CommitError::refused(batch, &Answer { sequence, errno, offset: None, text: None })
    }

    /// The batch could not be handed to the kernel.
    pub(crate) fn unsent(batch: &Batch, error: &io::Error, room: usize) -> CommitError {
        let errno = error.raw_os_error().unwrap_or_default();
        let subject = describe::whole(batch);
        if errno != libc::EMSGSIZE {
            let (kind, reason) = explain(&subject, batch.family(), errno);
            return CommitError::new(kind, subject, reason, errno);
        }
        let reason = format!(
            "it has {} bytes and the socket's send buffer takes {room}; raise net.core.wmem_max, \
             or run with CAP_NET_ADMIN in the host's user namespace",
            batch.len_bytes()
        );
        CommitError::new(CommitErrorKind::TooLarge, subject, reason, errno)
    }

    /// No answer came, so it is unknown whether the batch was committed.
    pub(crate) fn unanswered(batch: &Batch, error: &io::Error) -> CommitError {
        let errno = error.raw_os_error().unwrap_or(libc::ENOBUFS);
        let reason = "the kernel's answer was lost; it may have taken effect".to_owned();
        CommitError::new(CommitErrorKind::Unanswered, describe::whole(batch), reason, errno)
    }

    fn new(kind: CommitErrorKind, subject: Subject, reason: String, errno: i32) -> CommitError {
        use CommitErrorKind as Kind;
        let retryable = matches!(kind, Kind::OutOfMemory | Kind::Interfered | Kind::Unanswered);
        CommitError { kind, object: subject.words, reason, errno, retryable }
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.object, self.reason, errno_name(self.errno))
    }
}

impl std::error::Error for CommitError {}

/// Why a question was not answered.
#[derive(Debug)]
pub enum Error {
    /// Commits of others fell into the reading: what was read may hold both old and new.
    Interrupted {
        what: String,
    },
    Failed {
        what: String,
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn asking(what: &str, source: io::Error) -> Error {
        Error::Failed { what: what.to_owned(), source }
    }

    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Interrupted { .. } => None,
            Error::Failed { source, .. } => source.raw_os_error(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Interrupted { what } => {
                write!(f, "reading {what}: the tables were changed meanwhile; read again")
            }
            Error::Failed { what, source } if source.raw_os_error() == Some(libc::EPERM) => {
                write!(f, "reading {what}: this process lacks CAP_NET_ADMIN in the network namespace (EPERM)")
            }
            Error::Failed { what, source } => write!(f, "reading {what}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Interrupted { .. } => None,
            Error::Failed { source, .. } => Some(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::{ElementData, TableFamily};

    fn batch() -> Batch {
        let mut batch = Batch::new(TableFamily::Ip6, "t");
        batch.add_element("s", &[1; 4], ElementData::None, None);
        batch.add_element("s", &[2; 4], ElementData::None, None);
        batch.add_element(
            "m",
            &[1, 2, 3, 4, 6, 0, 0, 0],
            ElementData::Value(&[1; 4]),
            Some("default/web:http"),
        );
        batch
    }

    #[test]
    fn errors_of_the_whole_transaction_name_its_table() {
        for (errno, expected) in [
            (libc::EPERM, "this process lacks CAP_NET_ADMIN in the network namespace (EPERM)"),
            (libc::EOPNOTSUPP, "the kernel has no nf_tables: load module nf_tables (EOPNOTSUPP)"),
            (libc::ERESTART, "another change came in between (ERESTART)"),
            (libc::ENOMEM, "the kernel is short of memory (ENOMEM)"),
        ] {
            let error = CommitError::of_message(&batch(), 1, errno);
            assert_eq!(error.to_string(), format!("the transaction on table \"ip6 t\": {expected}"));
        }
        assert!(CommitError::of_message(&batch(), 1, libc::ENOMEM).retryable);
        assert!(!CommitError::of_message(&batch(), 1, libc::EPERM).retryable);
    }

    #[test]
    fn a_missing_family_is_not_taken_for_missing_nf_tables() {
        let mut batch = Batch::new(TableFamily::Ip6, "t");
        batch.add_table("");
        let error = CommitError::of_message(&batch, 2, libc::EOPNOTSUPP);
        assert_eq!(error.kind, CommitErrorKind::Unsupported);
        let expected = "adding table \"ip6 t\": the kernel's nf_tables has no family ip6: \
                        it needs CONFIG_NF_TABLES_IPV6 (EOPNOTSUPP)";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn without_an_offset_only_a_lone_element_is_named() {
        let several = CommitError::of_message(&batch(), 2, libc::ENFILE);
        assert_eq!(several.to_string(), "adding one of 2 elements to set \"s\": the set is full (ENFILE)");
        let lone = CommitError::of_message(&batch(), 3, libc::EEXIST);
        let expected = "adding element 01020304 06000000 (default/web:http) to map \"m\": it exists already with other data (EEXIST)";
        assert_eq!(lone.to_string(), expected);
    }

    #[test]
    fn an_answer_to_no_message_of_ours_is_no_panic() {
        let error = CommitError::of_message(&batch(), 99, 9999);
        assert_eq!(error.kind, CommitErrorKind::Rejected);
        assert!(error.to_string().ends_with("(errno 9999)"), "{error}");
    }

    #[test]
    fn a_batch_too_large_says_how_large() {
        let batch = batch();
        let error = CommitError::unsent(&batch, &io::Error::from_raw_os_error(libc::EMSGSIZE), 4096);
        assert_eq!(error.kind, CommitErrorKind::TooLarge);
        let sizes = format!("it has {} bytes and the socket's send buffer takes 4096;", batch.len_bytes());
        assert!(error.reason.starts_with(&sizes), "{error}");
    }
}
