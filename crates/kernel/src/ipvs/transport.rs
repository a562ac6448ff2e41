//! The seam between those who decide what IPVS holds and the kernel, real or simulated.

use super::{Batch, DumpedDestination, DumpedServer, Error, Failure, Info, Timeouts, VirtualServer};

pub trait Transport {
    /// Carry out the commands in their order and give the failed ones, in that order. Nothing is rolled back. After an
    /// error some may have been carried out: list what is there.
    fn commit(&mut self, batch: &Batch) -> Result<Vec<Failure>, Error>;

    /// All virtual servers with an address, of anyone; those by firewall mark are left out.
    ///
    /// The kernel sends a long list in parts and finds its place again by counting, over all network namespaces. If
    /// others add or delete servers meanwhile, in any namespace, one may be missing or listed twice, and nothing says so.
    fn services(&mut self) -> Result<Vec<DumpedServer>, Error>;

    /// One virtual server; `None` if there is no such server.
    fn service(&mut self, server: VirtualServer) -> Result<Option<DumpedServer>, Error>;

    /// The destinations of a server; empty if there is no such server.
    fn destinations(&mut self, server: VirtualServer) -> Result<Vec<DumpedDestination>, Error>;

    fn timeouts(&mut self) -> Result<Timeouts, Error>;

    /// Those that are 0 stay as they are.
    fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), Error>;

    fn info(&mut self) -> Result<Info, Error>;

    /// Whether the kernel has a scheduler, or could load it just now. Changes nothing else.
    fn scheduler_available(&mut self, name: &str) -> Result<bool, Error>;
}
