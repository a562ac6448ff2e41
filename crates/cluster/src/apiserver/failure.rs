//! Why a request, a list or a watch did not go on, in words for the operator.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use super::client::RequestError;
use super::pace::Trouble;
use super::wire::{Malformed, Status};
use super::wording::{bottom, deepest, one_line};

/// Servers may ask for more patience, but not for more than this.
const LONGEST_WISH: Duration = Duration::from_secs(60);
/// The words of rustls.
const UNTRUSTED: &str = "invalid peer certificate";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing listens there.
    Unreachable(String),
    /// A server listens, but no request got through: not one that TLS would trust, or a balancer without servers.
    Dropped(String),
    /// The connection ended in the middle of an answer.
    Cut(String),
    /// The server ended a watch that had hardly begun.
    Ended,
    /// Nothing came for this long.
    Stalled(Duration),
    /// The server said no.
    Rejected { code: u16, message: String, retry_after: Option<Duration> },
    /// The version we knew is no longer in the server's history.
    Gone,
    /// What came was not what an apiserver sends.
    Malformed(String),
}

impl Failure {
    /// From a request that got no answer.
    pub(super) fn of_request(error: &RequestError) -> Failure {
        match is_nobody_there(bottom(error)) {
            true => Failure::Unreachable(deepest(error)),
            false => Failure::Dropped(deepest(error)),
        }
    }

    /// From what an apiserver says of a request or a watch; `code` is for one that does not say.
    pub(super) fn of_status(status: Status, code: u16, retry_after: Option<Duration>) -> Failure {
        let code = u16::try_from(status.code).ok().filter(|code| *code != 0).unwrap_or(code);
        if code == 410 || matches!(&*status.reason, "Expired" | "Gone") {
            return Failure::Gone;
        }
        Failure::Rejected { code, message: one_line(status.message), retry_after }
    }

    pub(super) fn of_body(error: &(dyn Error + 'static)) -> Failure {
        let closed = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
        match bottom(error).downcast_ref().is_some_and(closed) {
            true => Failure::Cut("the server closed it".into()),
            false => Failure::Cut(deepest(error)),
        }
    }

    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Failure::Unreachable(_) | Failure::Stalled(_) => Trouble::Unreachable,
            Failure::Dropped(_) => Trouble::Dropped,
            _ => Trouble::Answered,
        }
    }

    /// How long the server asks us to wait, within reason.
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Failure::Rejected { retry_after: Some(wish), .. } => (*wish).min(LONGEST_WISH),
            _ => Duration::ZERO,
        }
    }

    /// The server will not, or cannot, say what was asked for; who asks is not the matter.
    pub(super) fn is_about_content(&self) -> bool {
        match self {
            Failure::Rejected { code, .. } => !matches!(code, 401 | 403 | 429),
            Failure::Malformed(_) => true,
            _ => false,
        }
    }

    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Failure::Rejected { code: 403, .. })
    }

    /// A list as a stream did not work, but one in pages may.
    pub(super) fn is_of_stream(&self) -> bool {
        match self {
            Failure::Rejected { code, .. } => !matches!(code, 401 | 403 | 404 | 429),
            Failure::Stalled(_) | Failure::Malformed(_) | Failure::Gone | Failure::Cut(_) => true,
            Failure::Unreachable(_) | Failure::Dropped(_) | Failure::Ended => false,
        }
    }

    /// The server does not do lists as streams, and there is no use in asking again.
    pub(super) fn refuses_stream(&self) -> bool {
        matches!(self, Failure::Rejected { code: 400 | 405 | 422, .. })
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Failure::Rejected { code: 404, .. })
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        Failure::Malformed(malformed.0)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Dropped(why) if why.contains(UNTRUSTED) => write!(
                f,
                "its certificate is not trusted: {why}; check the certificate-authority of the kubeconfig"
            ),
            Failure::Unreachable(why) | Failure::Dropped(why) => write!(f, "it cannot be reached: {why}"),
            Failure::Cut(why) => write!(f, "the connection was cut: {why}"),
            Failure::Ended => f.write_str("it ended the watch immediately"),
            Failure::Stalled(silence) => write!(f, "nothing was received for {}s", silence.as_secs()),
            Failure::Rejected { code: 401, message, .. } => write!(
                f,
                "the credentials were rejected (401): {message}; check the token or certificate of the kubeconfig"
            ),
            Failure::Rejected { code: 403, message, .. } => {
                write!(f, "not permitted (403): {message}; check the ClusterRole of the proxy")
            }
            Failure::Rejected { code, message, .. } => write!(f, "it answered {code}: {message}"),
            Failure::Gone => f.write_str("the version last seen is no longer in its history"),
            Failure::Malformed(why) => write!(f, "its response is invalid: {why}"),
        }
    }
}

fn is_nobody_there(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind.is_some_and(|kind| {
        matches!(kind, ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut)
    })
}
