//! A TCP connection that stays open, to see whether it survives.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{Outcome, dial};
use crate::Namespace;

#[derive(Debug)]
pub struct Hold {
    stream: BufReader<TcpStream>,
    opened: Outcome,
    count: u64,
}

/// What a sign of life on a held connection showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pulse {
    Alive(Duration),
    /// The other side ended it, or something on the way reset it.
    Closed,
    /// Nothing came back in time.
    Silent,
}

impl Hold {
    /// Connect and learn who is at the other end; `Err` tells why there is no connection.
    pub fn open(
        from: &Namespace,
        source: Option<IpAddr>,
        to: SocketAddr,
        timeout: Duration,
    ) -> Result<Hold, Outcome> {
        let (started, deadline) = (Instant::now(), Instant::now() + timeout);
        let connected = from.try_run(|| dial::dial(source, to, deadline));
        let stream = match connected {
            Ok(Ok(stream)) => BufReader::new(stream),
            Ok(Err(error)) => return Err(Outcome::from_error(&error)),
            Err(error) => return Err(Outcome::Failed(error.to_string())),
        };
        let mut hold = Hold { stream, opened: Outcome::Closed, count: 0 };
        let answer = hold.say("who").and_then(|()| hold.hear(deadline));
        match Outcome::from_answer(answer, started) {
            opened @ Outcome::Answered { .. } => Ok(Hold { opened, ..hold }),
            other => Err(other),
        }
    }

    /// What the first exchange showed: who answered, whom it saw, how long it took.
    pub fn opened(&self) -> &Outcome {
        &self.opened
    }

    pub fn by(&self) -> &str {
        self.opened.by().unwrap_or_default()
    }

    pub fn source(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().local_addr()
    }

    /// Send a line and wait for its echo.
    pub fn ping(&mut self, timeout: Duration) -> Pulse {
        let (started, deadline) = (Instant::now(), Instant::now() + timeout);
        self.count += 1;
        let ping = format!("ping {}", self.count);
        match self.say(&ping).and_then(|()| self.echo_of(&ping, deadline)) {
            Ok(true) => Pulse::Alive(started.elapsed()),
            Err(error) if Outcome::from_error(&error) == Outcome::TimedOut => Pulse::Silent,
            Ok(false) | Err(_) => Pulse::Closed,
        }
    }

    /// Whether it came before the connection ended. Echoes that had come too late for an earlier ping are
    /// passed over.
    fn echo_of(&mut self, ping: &str, deadline: Instant) -> io::Result<bool> {
        loop {
            match self.hear(deadline)?.trim_end() {
                "" => return Ok(false),
                line if line == ping => return Ok(true),
                _ => {}
            }
        }
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes())
    }

    /// The next line; empty if the connection has ended.
    fn hear(&mut self, deadline: Instant) -> io::Result<String> {
        let mut line = String::new();
        self.stream.get_ref().set_read_timeout(Some(dial::left(deadline)?))?;
        self.stream.read_line(&mut line)?;
        Ok(line)
    }
}
