//! What a command does, and the error number of one that cannot be done.

use std::net::IpAddr;

use kernel::ipvs::{Command, Destination, Settings, VirtualServer};

use super::Simulator;
use super::server::Server;

type Errno = i32;

/// `IP_VS_SCHEDNAME_MAXLEN` without the NUL.
const LONGEST_SCHEDULER: usize = 15;

impl Simulator {
    pub(super) fn carry_out(&mut self, command: &Command) -> Result<(), Errno> {
        match command {
            Command::NewService(server, settings) => self.new_service(*server, settings),
            Command::SetService(server, settings) => self.set_service(*server, settings),
            Command::DeleteService(server) => self.delete_service(*server),
            Command::NewDestination(server, to, weight) => self.new_destination(*server, *to, *weight),
            Command::SetDestination(server, to, weight) => self.set_destination(*server, *to, *weight),
            Command::DeleteDestination(server, to) => self.delete_destination(*server, *to),
        }
    }

    fn new_service(&mut self, server: VirtualServer, settings: &Settings) -> Result<(), Errno> {
        check_name(settings)?;
        if self.servers.contains_key(&server) {
            return Err(libc::EEXIST);
        }
        self.check_scheduler(settings)?;
        self.servers.insert(server, Server::new(settings.clone()));
        Ok(())
    }

    fn set_service(&mut self, server: VirtualServer, settings: &Settings) -> Result<(), Errno> {
        check_name(settings)?;
        self.find(server)?;
        self.check_scheduler(settings)?;
        let found = self.find(server)?;
        if found.settings.scheduler != settings.scheduler {
            found.memory = Default::default();
        }
        found.settings = settings.clone();
        Ok(())
    }

    fn delete_service(&mut self, server: VirtualServer) -> Result<(), Errno> {
        let gone = self.servers.remove(&server).ok_or(libc::ESRCH)?;
        for real in gone.pool {
            self.connections.release(server, real.at);
        }
        Ok(())
    }

    fn new_destination(&mut self, server: VirtualServer, to: Destination, weight: u32) -> Result<(), Errno> {
        let found = self.find(server)?;
        check_family(server, to)?;
        check_weight(weight)?;
        if found.real(to).is_some() {
            return Err(libc::EEXIST);
        }
        if !is_unicast(to.address) {
            return Err(libc::EINVAL);
        }
        found.add(to, weight);
        self.connections.restore(server, to);
        Ok(())
    }

    fn set_destination(&mut self, server: VirtualServer, to: Destination, weight: u32) -> Result<(), Errno> {
        let found = self.find(server)?;
        check_family(server, to)?;
        check_weight(weight)?;
        if found.set_weight(to, weight) { Ok(()) } else { Err(libc::ENOENT) }
    }

    fn delete_destination(&mut self, server: VirtualServer, to: Destination) -> Result<(), Errno> {
        if !self.find(server)?.remove(to) {
            return Err(libc::ENOENT);
        }
        self.connections.release(server, to);
        Ok(())
    }

    fn find(&mut self, server: VirtualServer) -> Result<&mut Server, Errno> {
        self.servers.get_mut(&server).ok_or(libc::ESRCH)
    }

    fn check_scheduler(&self, settings: &Settings) -> Result<(), Errno> {
        let known = settings.scheduler == "none" || self.schedulers.contains(&settings.scheduler);
        if known { Ok(()) } else { Err(libc::ENOENT) }
    }
}

/// Before anything is looked for, the kernel refuses attributes that are too long.
fn check_name(settings: &Settings) -> Result<(), Errno> {
    if settings.scheduler.len() > LONGEST_SCHEDULER { Err(libc::EINVAL) } else { Ok(()) }
}

/// To another family only a tunnel leads.
fn check_family(server: VirtualServer, to: Destination) -> Result<(), Errno> {
    if to.address.is_ipv4() == server.address.is_ipv4() { Ok(()) } else { Err(libc::EINVAL) }
}

/// A weight is a signed number to the kernel.
fn check_weight(weight: u32) -> Result<(), Errno> {
    if i32::try_from(weight).is_err() { Err(libc::ERANGE) } else { Ok(()) }
}

fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !(address.is_multicast() || address.is_broadcast() || address.is_unspecified())
        }
        IpAddr::V6(address) => {
            !(address.is_multicast() || address.is_unspecified() || address.is_unicast_link_local())
        }
    }
}
