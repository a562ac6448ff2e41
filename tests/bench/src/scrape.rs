//! What a scrape of `/metrics` costs, and that it and a sync leave each other alone.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use dataplane::nftables::TABLE_NAME;
use kernel::nft::{Batch, Connection, Family, Transport};

use crate::Failure;
use crate::results::ScrapeResult;
use gauges::gauge::{Cost, Meter, Summary};

const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);
const PATIENCE: Duration = Duration::from_secs(1);
const REWRITE_DEADLINE: Duration = Duration::from_secs(60);
const SCRAPES: usize = 100;
const FULL_SYNCS: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds";

/// The body of an answer to `GET path`, in the calling thread's namespace.
pub(crate) fn get(server: SocketAddr, path: &str) -> std::io::Result<(bool, String)> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Ok((answer.starts_with("HTTP/1.1 200"), body))
}

/// Of the agent in the calling thread's namespace: at rest, and while it writes all rules anew.
pub(crate) fn measure() -> Result<ScrapeResult, Failure> {
    let (_, page) = scrape()?;
    let idle = (0..SCRAPES).map(|_| Ok(scrape()?.0)).collect::<Result<Vec<Cost>, Failure>>()?;
    let before = full_syncs(&page)?;
    let mut connection = Connection::open()?;
    let mut damage = Batch::new(Family::Ip, TABLE_NAME);
    damage.delete_table();
    connection.commit(&damage)?;
    let (mut busy, started) = (Vec::new(), Instant::now());
    let after = loop {
        let (cost, page) = scrape()?;
        busy.push(cost);
        match full_syncs(&page)? {
            now if now.0 > before.0 => break now,
            _ if started.elapsed() > REWRITE_DEADLINE => return Err("the rules were not written anew".into()),
            _ => {}
        }
    };
    Ok(ScrapeResult {
        bytes: page.len(),
        idle: Summary::of(&idle),
        busy: Summary::of(&busy),
        rewrite_ms: (after.1 - before.1) * 1e3,
    })
}

fn scrape() -> Result<(Cost, String), Failure> {
    let meter = Meter::start();
    let (good, page) = get(METRICS, "/metrics")?;
    let cost = meter.stop(Duration::ZERO);
    if good { Ok((cost, page)) } else { Err(format!("no metrics: {page}").into()) }
}

/// How many there were, and their seconds together.
fn full_syncs(page: &str) -> Result<(f64, f64), Failure> {
    let value = |end: &str| {
        let series = format!("{FULL_SYNCS}_{end}{{ip_family=\"IPv4\"}} ");
        let found = page.lines().find_map(|line| line.strip_prefix(&series)?.parse::<f64>().ok());
        found.ok_or_else(|| format!("no {series}in the metrics"))
    };
    Ok((value("count")?, value("sum")?))
}
