//! A connection whose other side must ask in a few words and take what it asked for.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// A write that makes no progress for so long ends the connection.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
/// A request that comes in more pieces is refused: each piece costs another look at all of them.
const MOST_READS: u32 = 64;

pub(crate) struct ImpatientStream {
    stream: TcpStream,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Since the last request.
    reads: Rc<Cell<u32>>,
}

impl ImpatientStream {
    pub(crate) fn new(stream: TcpStream) -> ImpatientStream {
        ImpatientStream { stream, deadline: None, reads: Rc::default() }
    }

    /// To be set to zero when a request has come.
    pub(crate) fn reads(&self) -> Rc<Cell<u32>> {
        self.reads.clone()
    }

    fn judge(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_DEADLINE)));
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
            self.reads.set(self.reads.get() + 1);
        }
        match self.reads.get() > MOST_READS {
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
