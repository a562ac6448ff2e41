//! A connection whose other side must ask in a few words and take what it asked for.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// A write that makes no progress for so long ends the connection.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
/// All waits for one answer: who takes a few bytes at a time makes progress, and keeps the whole answer in our memory.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);
/// A request that comes in more pieces is refused: each piece costs another look at all of them.
const MOST_READS: u32 = 64;

pub(crate) struct ImpatientStream {
    stream: TcpStream,
    /// Runs while a write waits, since then.
    deadline: Option<(Pin<Box<Sleep>>, Instant)>,
    spent: Rc<Spent>,
}

/// Since the last request.
#[derive(Default)]
pub(crate) struct Spent {
    reads: Cell<u32>,
    /// Total time for which finished writes were blocked.
    waited: Cell<Duration>,
}

impl Spent {
    /// A request has come.
    pub(crate) fn reset(&self) {
        self.reads.set(0);
        self.waited.set(Duration::ZERO);
    }

    /// How long a write may wait.
    fn patience(&self) -> Duration {
        WRITE_DEADLINE.min(ANSWER_DEADLINE.saturating_sub(self.waited.get()))
    }
}

impl ImpatientStream {
    pub(crate) fn new(stream: TcpStream) -> ImpatientStream {
        ImpatientStream { stream, deadline: None, spent: Rc::default() }
    }

    pub(crate) fn spent(&self) -> Rc<Spent> {
        self.spent.clone()
    }

    fn judge(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if let Some((_, since)) = self.deadline.take() {
                self.spent.waited.set(self.spent.waited.get() + since.elapsed());
            }
            return written;
        }
        let begin = || (Box::pin(tokio::time::sleep(self.spent.patience())), Instant::now());
        let (deadline, _) = self.deadline.get_or_insert_with(begin);
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for ImpatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.spent.reads.set(self.spent.reads.get() + 1);
        }
        match self.spent.reads.get() > MOST_READS {
            true => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            false => read,
        }
    }
}

impl AsyncWrite for ImpatientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_waits_are_one_long_one() {
        let spent = Spent::default();
        assert_eq!(spent.patience(), WRITE_DEADLINE);
        spent.waited.set(ANSWER_DEADLINE - Duration::from_secs(1));
        assert_eq!(spent.patience(), Duration::from_secs(1));
        spent.waited.set(2 * ANSWER_DEADLINE);
        assert_eq!(spent.patience(), Duration::ZERO);
        spent.reset();
        assert_eq!(spent.patience(), WRITE_DEADLINE);
    }
}
