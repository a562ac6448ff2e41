//! What became of a question.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered by the server of that name, which saw the question come from `seen_as`.
    Answered {
        by: String,
        seen_as: IpAddr,
        /// From the first packet to the whole answer: a second or more means a packet was lost and sent again.
        took: Duration,
    },
    /// A TCP reset or ICMP "port unreachable": nothing serves there, which is reported at once.
    Refused,
    /// Any other refusal on the way, by error number (no route, administratively prohibited; EPERM if a
    /// rule of the asking namespace itself dropped the datagram).
    Unreachable(i32),
    /// Nothing came back.
    TimedOut,
    /// The connection was made and ended without an answer.
    Closed,
    /// The question could not be put, or the answer not be understood: a fault of the test, not of the network.
    Failed(String),
}

impl Outcome {
    /// Who answered, if anyone.
    pub fn by(&self) -> Option<&str> {
        match self {
            Outcome::Answered { by, .. } => Some(by),
            _ => None,
        }
    }

    pub fn seen_as(&self) -> Option<IpAddr> {
        match self {
            Outcome::Answered { seen_as, .. } => Some(*seen_as),
            _ => None,
        }
    }

    pub fn took(&self) -> Option<Duration> {
        match self {
            Outcome::Answered { took, .. } => Some(*took),
            _ => None,
        }
    }

    pub(super) fn from_answer(answer: io::Result<String>, started: Instant) -> Outcome {
        let took = started.elapsed();
        match answer {
            Ok(text) if text.is_empty() => Outcome::Closed,
            Ok(text) => read(&text, took).unwrap_or(Outcome::Failed(format!("unexpected answer {text:?}"))),
            Err(error) => Outcome::from_error(&error),
        }
    }

    pub(super) fn from_error(error: &io::Error) -> Outcome {
        use rustix::io::Errno;
        if error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::TimedOut {
            return Outcome::TimedOut;
        }
        match Errno::from_io_error(error) {
            Some(Errno::CONNREFUSED) => Outcome::Refused,
            Some(Errno::CONNRESET | Errno::PIPE) => Outcome::Closed,
            Some(
                errno @ (Errno::HOSTUNREACH
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::ACCESS
                | Errno::PERM
                | Errno::NOPROTOOPT
                | Errno::PROTO),
            ) => Outcome::Unreachable(errno.raw_os_error()),
            _ => Outcome::Failed(error.to_string()),
        }
    }
}

/// `NAME CLIENT_IP`, and from UDP servers the port behind it.
fn read(text: &str, took: Duration) -> Option<Outcome> {
    let mut words = text.split_whitespace();
    let (by, seen_as) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some(Outcome::Answered { by, seen_as, took })
}
