//! The simulator in the kernel's place.

use std::io;

use kernel::ipvs::{
    Batch, DumpedDestination, DumpedServer, Error, Failure, Info, Settings, Timeouts, Transport,
    VirtualServer, flags,
};
use kernel::netlink::Refusal;

use super::Simulator;
use super::server::Server;

impl Transport for Simulator {
    fn commit(&mut self, batch: &Batch) -> Result<Vec<Failure>, Error> {
        self.fails("changing IPVS")?;
        let each = batch.commands().iter().enumerate();
        Ok(each
            .filter_map(|(index, command)| {
                self.carry_out(command).err().map(|errno| Failure { index, errno })
            })
            .collect())
    }

    fn services(&mut self) -> Result<Vec<DumpedServer>, Error> {
        self.fails("listing virtual servers")?;
        Ok(self.servers.iter().map(|(key, server)| dumped(*key, server)).collect())
    }

    fn service(&mut self, server: VirtualServer) -> Result<Option<DumpedServer>, Error> {
        self.fails("reading a virtual server")?;
        Ok(self.servers.get(&server).map(|found| dumped(server, found)))
    }

    fn destinations(&mut self, server: VirtualServer) -> Result<Vec<DumpedDestination>, Error> {
        self.fails("listing destinations")?;
        let pool = self.servers.get(&server).map(|found| found.pool.as_slice()).unwrap_or_default();
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let dumped = pool.iter().map(|real| {
            let load = self.connections.load(server, real.at);
            DumpedDestination {
                destination: real.at,
                weight: real.weight,
                masquerading: true,
                active: count(load.active),
                inactive: count(load.inactive),
                persistent: self.connections.bound_to(server, real.at),
                statistics: real.statistics,
            }
        });
        Ok(dumped.collect())
    }

    fn timeouts(&mut self) -> Result<Timeouts, Error> {
        self.fails("reading the timeouts")?;
        Ok(self.timeouts)
    }

    fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), Error> {
        self.fails("setting the timeouts")?;
        let kept = |new: u32, old: u32| if new == 0 { old } else { new };
        self.timeouts = Timeouts {
            tcp: kept(timeouts.tcp, self.timeouts.tcp),
            tcp_fin: kept(timeouts.tcp_fin, self.timeouts.tcp_fin),
            udp: kept(timeouts.udp, self.timeouts.udp),
        };
        Ok(())
    }

    fn info(&mut self) -> Result<Info, Error> {
        self.fails("reading the version")?;
        Ok(Info { version: (1, 2, 1), connection_table_size: 4096 })
    }

    fn scheduler_available(&mut self, name: &str) -> Result<bool, Error> {
        self.fails("looking for a scheduler")?;
        Ok(self.schedulers.contains(name))
    }
}

impl Simulator {
    fn fails(&mut self, doing: &str) -> Result<(), Error> {
        match self.failure.take() {
            None => Ok(()),
            Some(libc::EPERM) => Err(Error::NotPermitted),
            Some(libc::ENOBUFS) => Err(Error::Unanswered { doing: doing.to_owned() }),
            Some(errno) => {
                let refusal = Refusal::from(io::Error::from_raw_os_error(errno));
                Err(Error::Refused { doing: doing.to_owned(), refusal })
            }
        }
    }
}

fn dumped(key: VirtualServer, server: &Server) -> DumpedServer {
    let settings = &server.settings;
    DumpedServer {
        server: key,
        settings: Settings { flags: settings.flags & flags::ALL, ..settings.clone() },
        by_network: false,
        statistics: server.statistics,
    }
}
