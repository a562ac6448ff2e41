//! [`Connection`]: the socket over which commands go and answers come.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;
use std::path::Path;

use super::sys::*;
use super::{
    Batch, Command, DumpedDestination, DumpedServer, Error, Failure, Info, Protocol, Settings, Timeouts,
    Transport, VirtualServer, decode, encode,
};
use crate::module;
use crate::netlink::{
    self, DumpEnd, Exchange, Message, Protocol as NetlinkProtocol, Refusal, Writer, generic,
};

/// Commands sent together; the answers to all of them, were each refused, must fit in the receive buffer.
const TOGETHER: usize = 200;
/// Bytes sent together, below what any socket's send buffer holds.
const TOGETHER_BYTES: usize = 64 * 1024;
const RECEIVE_BUFFER: usize = 1024 * 1024;
/// `IP_VS_SCHEDNAME_MAXLEN` without the NUL.
const LONGEST_SCHEDULER: usize = 15;
/// Attempts at a consistent list before giving up.
const ATTEMPTS: usize = 8;

/// A connection to the IPVS of one network namespace: the one the opening thread was in.
///
/// A command blocks for as long as the kernel works on it; one that loads a scheduler's module takes longest.
#[derive(Debug)]
pub struct Connection {
    exchange: Exchange,
    family: u16,
}

impl Connection {
    /// Load IPVS if it is not there and connect to it.
    pub fn open() -> Result<Connection, Error> {
        let mut exchange = open()?;
        let family = generic::resolve(&mut exchange, FAMILY).map_err(|refusal| match refusal.errno() {
            Some(libc::ENOENT) => Error::NotAvailable,
            _ => Error::from_refusal("looking for IPVS", refusal),
        })?;
        Ok(Connection { exchange, family })
    }

    /// Connect if this kernel has loaded IPVS; to ask for it would load it.
    pub fn open_if_loaded() -> Result<Option<Connection>, Error> {
        match Path::new("/proc/net/ip_vs").exists() {
            true => Connection::open().map(Some),
            false => Ok(None),
        }
    }

    /// Send `commands`, which fit in one datagram, and note the failures of those that begin at place `first`.
    fn send(
        &mut self,
        first: usize,
        commands: &[Command],
        failures: &mut Vec<Failure>,
    ) -> Result<usize, Error> {
        let mut batch = netlink::Batch::default();
        for (place, command) in commands.iter().take(TOGETHER).enumerate() {
            let full = batch.len_bytes() >= TOGETHER_BYTES;
            let last = full || place + 1 == commands.len().min(TOGETHER);
            let header = generic::header(encode::number(command), VERSION);
            self.exchange.append(&mut batch, last, self.family, 0, &header, |message| {
                encode::command(message, command);
            });
            if last {
                break;
            }
        }
        let sent = self.exchange.send(&batch, |place, refusal| {
            match refusal.errno() {
                // None of the commands can succeed.
                Some(libc::EPERM) | None => return Err(refusal),
                Some(errno) => failures.push(Failure { index: first + place, errno }),
            }
            Ok(())
        });
        sent.map_err(|refusal| Error::from_refusal("changing IPVS", refusal))?;
        Ok(batch.len())
    }

    fn ask(
        &mut self,
        command: u8,
        fill: impl FnOnce(&mut Writer),
        read: impl FnOnce(&Message<'_>),
    ) -> Result<(), Refusal> {
        self.exchange.ask_one(self.family, &generic::header(command, VERSION), fill, read)
    }

    /// All answers to a question, read without a gap.
    fn list<T>(
        &mut self,
        command: u8,
        doing: impl Fn() -> String,
        fill: impl Fn(&mut Writer),
        read: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        for _ in 0..ATTEMPTS {
            let mut found = Vec::new();
            let end = self.exchange.dump(self.family, &generic::header(command, VERSION), &fill, |message| {
                found.extend(read(message));
                ControlFlow::Continue(())
            });
            match end {
                Ok(DumpEnd::Inconsistent) => {}
                Ok(_) => return Ok(found),
                // The socket holds the rest of an unfinished list and is of no further use.
                Err(refusal) if refusal.errno() == Some(libc::ENOBUFS) => self.exchange = open()?,
                Err(refusal) if refusal.errno() == Some(libc::EINTR) => {}
                Err(refusal) => return Err(Error::from_refusal(doing(), refusal)),
            }
        }
        Err(Error::Restless { doing: doing() })
    }

    fn command(&mut self, command: u8, fill: impl FnOnce(&mut Writer)) -> Result<(), Refusal> {
        self.exchange.command(self.family, 0, &generic::header(command, VERSION), fill)
    }

    /// For a kernel whose IPVS knows no IPv6: make a server on an address that is for examples only, and delete it.
    fn try_scheduler(&mut self, settings: &Settings) -> Result<(), Refusal> {
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let server = VirtualServer { address, protocol: Protocol::Tcp, port: 9 };
        let new = Command::NewService(server, settings.clone());
        self.command(NEW_SERVICE, |message| encode::command(message, &new))?;
        self.command(DEL_SERVICE, |message| encode::key(message, server))
    }
}

fn open() -> Result<Exchange, Error> {
    let exchange = Exchange::open(NetlinkProtocol::Generic).map_err(Error::Socket)?;
    exchange.socket().reserve_receive_buffer(RECEIVE_BUFFER).map_err(Error::Socket)?;
    Ok(exchange)
}

/// Load those schedulers beforehand that must not be loaded by the command that needs them.
///
/// `lblc` and `lblcr` register themselves with every network namespace. That waits for namespaces that are just being
/// removed, their removal waits for IPVS' lock, and the command holds that lock while the module is loaded: nothing
/// that concerns IPVS or namespaces moves again until the machine is restarted (seen on Linux 6.1 and 6.12).
fn loads_safely(scheduler: &str) -> bool {
    if !matches!(scheduler, "lblc" | "lblcr") {
        return true;
    }
    let module = format!("ip_vs_{scheduler}");
    if !module::is_loaded(&module) {
        let _seen_below = module::request(&module);
    }
    // In a kernel with IPVS built in, the scheduler may be, too, and then shows no state.
    module::is_loaded(&module) || !module::is_loaded("ip_vs")
}

impl Transport for Connection {
    fn commit(&mut self, batch: &Batch) -> Result<Vec<Failure>, Error> {
        let mut failures = Vec::new();
        let mut done = 0;
        while let Some(left) = batch.commands().get(done..).filter(|left| !left.is_empty()) {
            done += self.send(done, left, &mut failures)?;
        }
        Ok(failures)
    }

    fn services(&mut self) -> Result<Vec<DumpedServer>, Error> {
        self.list(GET_SERVICE, || "listing virtual servers".to_owned(), |_| {}, decode::server)
    }

    fn service(&mut self, server: VirtualServer) -> Result<Option<DumpedServer>, Error> {
        let mut found = None;
        let asked = self.ask(
            GET_SERVICE,
            |message| encode::key(message, server),
            |message| found = decode::server(message),
        );
        match asked {
            Err(refusal) if refusal.errno() == Some(libc::ESRCH) => Ok(None),
            Err(refusal) => Err(Error::from_refusal(format!("reading virtual server {server}"), refusal)),
            Ok(()) => Ok(found),
        }
    }

    fn destinations(&mut self, server: VirtualServer) -> Result<Vec<DumpedDestination>, Error> {
        self.list(
            GET_DEST,
            || format!("listing the destinations of virtual server {server}"),
            |message| encode::key(message, server),
            |message| decode::destination(message, server.address),
        )
    }

    fn timeouts(&mut self) -> Result<Timeouts, Error> {
        let mut found = Timeouts::default();
        self.ask(GET_CONFIG, |_| {}, |message| found = decode::timeouts(message))
            .map_err(|refusal| Error::from_refusal("reading the timeouts of IPVS", refusal))?;
        Ok(found)
    }

    fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), Error> {
        self.command(SET_CONFIG, |message| encode::timeouts(message, timeouts))
            .map_err(|refusal| Error::from_refusal("setting the timeouts of IPVS", refusal))
    }

    fn info(&mut self) -> Result<Info, Error> {
        let mut found = None;
        let doing = "reading the version of IPVS";
        self.ask(GET_INFO, |_| {}, |message| found = decode::info(message))
            .map_err(|refusal| Error::from_refusal(doing, refusal))?;
        let unreadable = || Refusal::from(io::Error::from(io::ErrorKind::InvalidData));
        found.ok_or_else(|| Error::Refused { doing: doing.to_owned(), refusal: unreadable() })
    }

    /// The kernel looks for the scheduler before it checks the mask of an IPv6 server, and a prefix of no bits is
    /// invalid: so `EINVAL` is a yes, `ENOENT` a no, and no server is made.
    fn scheduler_available(&mut self, name: &str) -> Result<bool, Error> {
        // To the kernel "none" is a server without scheduler, and a name that is too long is invalid, too.
        if name == "none" || !(1..=LONGEST_SCHEDULER).contains(&name.len()) {
            return Ok(false);
        }
        if !loads_safely(name) {
            return Ok(false);
        }
        let address = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        let server = VirtualServer { address, protocol: Protocol::Tcp, port: 9 };
        let settings = Settings::new(name);
        let asked = self.command(NEW_SERVICE, |message| {
            encode::whole_server(message, server, &settings, 0u32.to_ne_bytes());
        });
        let asked = match asked {
            Err(refusal) if refusal.errno() == Some(libc::EAFNOSUPPORT) => self.try_scheduler(&settings),
            other => other,
        };
        match asked.map_err(|refusal| (refusal.errno(), refusal)) {
            Ok(()) | Err((Some(libc::EINVAL | libc::EEXIST), _)) => Ok(true),
            Err((Some(libc::ENOENT), _)) => Ok(false),
            Err((_, refusal)) => Err(Error::from_refusal(format!("looking for scheduler {name}"), refusal)),
        }
    }
}
