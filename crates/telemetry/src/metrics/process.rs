//! What the kernel says of this process, read when a page is asked for. What cannot be read is left out.

use std::fs;
use std::time::SystemTime;

use kernel::process::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::registry::{Description, Kind, Registry};
use super::value::Gauge;

const fn of_process(name: &'static str, kind: Kind, help: &'static str) -> Description {
    Description { name, kind, labels: &[], help }
}

const CPU: Description = of_process(
    "process_cpu_seconds_total",
    Kind::Counter,
    "Processor time that this process used, in user mode and in the kernel",
);
const OPEN_FDS: Description = of_process("process_open_fds", Kind::Gauge, "Open file descriptors");
const MAX_FDS: Description = of_process("process_max_fds", Kind::Gauge, "File descriptors that may be open");
const VIRTUAL: Description =
    of_process("process_virtual_memory_bytes", Kind::Gauge, "Address space, most of which takes no memory");
const MAX_VIRTUAL: Description =
    of_process("process_virtual_memory_max_bytes", Kind::Gauge, "Address space that may be used");
const RESIDENT: Description =
    of_process("process_resident_memory_bytes", Kind::Gauge, "Memory that this process takes");
const START: Description = of_process("process_start_time_seconds", Kind::Gauge, "When this process started");
const RECEIVED: Description = of_process(
    "process_network_receive_bytes_total",
    Kind::Counter,
    "Bytes of all IP packets that this network namespace received",
);
const SENT: Description = of_process(
    "process_network_transmit_bytes_total",
    Kind::Counter,
    "Bytes of all IP packets that this network namespace sent",
);

#[derive(Clone, Debug)]
pub(super) struct ProcessMetrics {
    cpu: Gauge,
    open_fds: Gauge,
    virtual_memory: Gauge,
    resident: Gauge,
    received: Gauge,
    sent: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(registry: &mut Registry, slis: &mut Registry) -> ProcessMetrics {
        let metrics = ProcessMetrics {
            cpu: registry.gauge(CPU, &[]),
            open_fds: registry.gauge(OPEN_FDS, &[]),
            virtual_memory: registry.gauge(VIRTUAL, &[]),
            resident: registry.gauge(RESIDENT, &[]),
            received: registry.gauge(RECEIVED, &[]),
            sent: registry.gauge(SENT, &[]),
        };
        let limit = |resource| getrlimit(resource).current.map_or(u64::MAX, |limit| limit) as f64;
        registry.gauge(MAX_FDS, &[]).set(limit(Resource::Nofile));
        registry.gauge(MAX_VIRTUAL, &[]).set(limit(Resource::As));
        let started = started().unwrap_or_else(|| super::clock::seconds(SystemTime::now()));
        registry.gauge(START, &[]).set(started);
        slis.gauge(START, &[]).set(started);
        metrics
    }

    pub(super) fn refresh(&self) {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        self.cpu.set(used.tv_sec as f64 + used.tv_nsec as f64 / 1e9);
        set(&self.open_fds, fs::read_dir("/proc/self/fd").ok().map(|open| open.count() as f64));
        let sizes = fs::read_to_string("/proc/self/statm").ok();
        let pages = |at| Some(number(sizes.as_deref()?.split_whitespace().nth(at)?)? * page_size() as f64);
        set(&self.virtual_memory, pages(0));
        set(&self.resident, pages(1));
        let traffic = fs::read_to_string("/proc/self/net/netstat").ok();
        let octets = |name| ip_extension(traffic.as_deref()?, name);
        set(&self.received, octets("InOctets"));
        set(&self.sent, octets("OutOctets"));
    }
}

fn set(gauge: &Gauge, value: Option<f64>) {
    value.into_iter().for_each(|value| gauge.set(value));
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// A counter of the table `IpExt`, which is a line of names and a line of numbers.
fn ip_extension(netstat: &str, name: &str) -> Option<f64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("IpExt:"));
    let at = lines.next()?.split_whitespace().position(|field| field == name)?;
    number(lines.next()?.split_whitespace().nth(at)?)
}

/// The start of the machine and how long after it this process started, in ticks.
fn started() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in brackets and may hold anything; what follows are numbers.
    let (_, fields) = own.rsplit_once(')')?;
    let ticks = number(fields.split_whitespace().nth(19)?)?;
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(number(boot.trim())? + ticks / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_started_a_moment_ago() {
        let age = super::super::clock::seconds(SystemTime::now()) - started().unwrap();
        assert!((-2.0..600.0).contains(&age), "{age}");
    }

    #[test]
    fn counters_of_the_kernel_are_found_by_name() {
        let text = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets\nIpExt: 3 45\n";
        assert_eq!(ip_extension(text, "InOctets"), Some(45.0));
        assert_eq!(ip_extension(text, "OutOctets"), None);
        assert_eq!(ip_extension("IpExt: InOctets\n", "InOctets"), None);
    }
}
