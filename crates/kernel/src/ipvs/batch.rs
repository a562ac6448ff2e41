//! [`Batch`]: commands to be sent together.

use std::fmt;
use std::io;

use super::{Destination, Settings, VirtualServer};

/// One change. A command that fails changes nothing; the others are carried out all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `EEXIST` if there is such a server, `ENOENT` if the kernel has no such scheduler.
    NewService(VirtualServer, Settings),
    /// Connections and clients' bindings stay as they are. `ESRCH` if there is no such server.
    SetService(VirtualServer, Settings),
    /// Its destinations and connections go with it.
    DeleteService(VirtualServer),
    /// With its weight. `EEXIST` if the server has it already.
    NewDestination(VirtualServer, Destination, u32),
    /// `ENOENT` if the server does not have it, `ESRCH` if there is no such server.
    SetDestination(VirtualServer, Destination, u32),
    DeleteDestination(VirtualServer, Destination),
}

impl Command {
    pub fn server(&self) -> VirtualServer {
        match self {
            Command::NewService(server, _)
            | Command::SetService(server, _)
            | Command::DeleteService(server)
            | Command::NewDestination(server, ..)
            | Command::SetDestination(server, ..)
            | Command::DeleteDestination(server, _) => *server,
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::NewService(server, settings) => {
                write!(f, "adding virtual server {server} with scheduler {}", settings.scheduler)
            }
            Command::SetService(server, settings) => {
                write!(f, "changing virtual server {server} with scheduler {}", settings.scheduler)
            }
            Command::DeleteService(server) => write!(f, "deleting virtual server {server}"),
            Command::NewDestination(server, destination, weight) => {
                write!(f, "adding destination {destination} with weight {weight} to virtual server {server}")
            }
            Command::SetDestination(server, destination, weight) => {
                write!(
                    f,
                    "setting the weight of destination {destination} of virtual server {server} to {weight}"
                )
            }
            Command::DeleteDestination(server, destination) => {
                write!(f, "deleting destination {destination} of virtual server {server}")
            }
        }
    }
}

/// Commands in the order in which they are carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    commands: Vec<Command>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    pub fn len(&self) -> usize {
        self.commands.len()
    }

    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Add a command and say which place it has, by which a [`Failure`] names it.
    pub fn push(&mut self, command: Command) -> usize {
        self.commands.push(command);
        self.commands.len() - 1
    }

    pub fn new_service(&mut self, server: VirtualServer, settings: &Settings) -> usize {
        self.push(Command::NewService(server, settings.clone()))
    }

    pub fn set_service(&mut self, server: VirtualServer, settings: &Settings) -> usize {
        self.push(Command::SetService(server, settings.clone()))
    }

    pub fn delete_service(&mut self, server: VirtualServer) -> usize {
        self.push(Command::DeleteService(server))
    }

    pub fn new_destination(&mut self, server: VirtualServer, destination: Destination, weight: u32) -> usize {
        self.push(Command::NewDestination(server, destination, weight))
    }

    pub fn set_destination(&mut self, server: VirtualServer, destination: Destination, weight: u32) -> usize {
        self.push(Command::SetDestination(server, destination, weight))
    }

    pub fn delete_destination(&mut self, server: VirtualServer, destination: Destination) -> usize {
        self.push(Command::DeleteDestination(server, destination))
    }

    /// A failure in words: which command, and why.
    pub fn explain(&self, failure: Failure) -> String {
        let reason = match (self.commands.get(failure.index), failure.errno) {
            (Some(Command::NewService(_, settings) | Command::SetService(_, settings)), libc::ENOENT) => {
                format!("the kernel has no scheduler {0}; load module ip_vs_{0}", settings.scheduler)
            }
            (_, libc::EEXIST) => "it exists already".to_owned(),
            (_, libc::ESRCH) => "there is no such virtual server".to_owned(),
            (_, libc::ENOENT) => "there is no such destination".to_owned(),
            (_, libc::EPERM) => "CAP_NET_ADMIN is missing".to_owned(),
            (_, errno) => io::Error::from_raw_os_error(errno).to_string(),
        };
        match self.commands.get(failure.index) {
            Some(command) => format!("{command}: {reason}"),
            None => reason,
        }
    }
}

/// A command that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its place in the batch.
    pub index: usize,
    pub errno: i32,
}

impl Failure {
    /// What was to be made is there already.
    pub fn is_there_already(&self) -> bool {
        self.errno == libc::EEXIST
    }

    /// The kernel finds a value impossible, such as an address that no host can have.
    pub fn is_invalid(&self) -> bool {
        self.errno == libc::EINVAL
    }

    /// What was to be changed or deleted is not there.
    pub fn is_not_there(&self) -> bool {
        matches!(self.errno, libc::ENOENT | libc::ESRCH)
    }
}
