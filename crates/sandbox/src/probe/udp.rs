//! A UDP flow: one socket with one peer, so that every question has the same addresses and ports.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::Outcome;
use crate::Namespace;

#[derive(Debug)]
pub struct UdpFlow {
    socket: UdpSocket,
}

impl UdpFlow {
    /// Sends nothing yet. Port 0 takes any free one.
    pub fn open(from: &Namespace, source: SocketAddr, to: SocketAddr) -> Result<UdpFlow, Outcome> {
        let opened = from.try_run(|| {
            let socket = UdpSocket::bind(source)?;
            socket.connect(to)?;
            Ok(socket)
        });
        match opened {
            Ok(Ok(socket)) => Ok(UdpFlow { socket }),
            Ok(Err(error)) => Err(Outcome::from_error(&error)),
            Err(error) => Err(Outcome::Failed(error.to_string())),
        }
    }

    /// The address and port the questions come from, before any rewriting.
    pub fn source(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Send one datagram and wait for one.
    pub fn ask(&self, timeout: Duration) -> Outcome {
        let started = Instant::now();
        Outcome::from_answer(self.exchange(timeout), started)
    }

    fn exchange(&self, timeout: Duration) -> std::io::Result<String> {
        let mut answer = [0; 256];
        // `std` takes zero for "wait for ever".
        self.socket.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        self.socket.send(b"who")?;
        let length = self.socket.recv(&mut answer)?;
        Ok(String::from_utf8_lossy(answer.get(..length).unwrap_or_default()).into_owned())
    }
}
