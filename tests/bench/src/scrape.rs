//! What a scrape of `/metrics` costs, and that it and a sync leave each other alone.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use dataplane::nftables::TABLE_NAME;
use kernel::nft::{Batch, Connection, TableFamily, Transport};

use crate::Failure;
use crate::results::ScrapeResult;
use bench_support::gauge::{Cost, Meter, Summary};

pub(crate) const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);
/// Long: while the kernel commits a large transaction, a page that asks it something waits. How long is measured.
const PATIENCE: Duration = Duration::from_secs(30);
const REWRITE_DEADLINE: Duration = Duration::from_secs(60);
const SCRAPES: usize = 100;
/// Between scrapes that are to be noticed, if anything can be, and between those that only ask whether it is done.
const OFTEN: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_millis(200);
const FULL_SYNCS: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds";

/// The body of an answer to `GET path`, in the calling thread's namespace.
pub(crate) fn get(server: SocketAddr, path: &str) -> std::io::Result<(bool, String)> {
    get_with(server, path, "")
}

/// The same with another line in the head of the request.
pub(crate) fn get_with(server: SocketAddr, path: &str, header: &str) -> std::io::Result<(bool, String)> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Ok((answer.starts_with("HTTP/1.1 200"), body))
}

/// Of the agent in the calling thread's namespace: at rest, and while it rewrites all rules.
pub(crate) fn measure() -> Result<ScrapeResult, Failure> {
    let (_, page) = scrape()?;
    let idle = (0..SCRAPES).map(|_| Ok(scrape()?.0)).collect::<Result<Vec<Cost>, Failure>>()?;
    let (mut busy, mut alone, mut scraped) = (Vec::new(), f64::INFINITY, f64::INFINITY);
    // In pairs that begin with one and the other: a rewrite soon after another finds the kernel in another state.
    for pause in [SELDOM, OFTEN, OFTEN, SELDOM, SELDOM, OFTEN, OFTEN, SELDOM] {
        let (costs, took) = rewrite(pause)?;
        if pause == OFTEN {
            busy.extend(costs);
            scraped = took.min(scraped);
        } else {
            alone = took.min(alone);
        }
    }
    Ok(ScrapeResult {
        bytes: page.len(),
        idle: Summary::of(&idle),
        busy: Summary::of(&busy),
        rewrite_ms: alone * 1e3,
        scraped_rewrite_ms: scraped * 1e3,
    })
}

/// Take the agent's table away and scrape until it is rewritten: what the scrapes cost, and the seconds of the sync.
fn rewrite(pause: Duration) -> Result<(Vec<Cost>, f64), Failure> {
    let before = full_syncs(&scrape()?.1)?;
    let mut damage = Batch::new(TableFamily::Ip, TABLE_NAME);
    damage.delete_table();
    Connection::open()?.commit(&damage)?;
    let (mut costs, started) = (Vec::new(), Instant::now());
    while started.elapsed() < REWRITE_DEADLINE {
        std::thread::sleep(pause);
        let (cost, page) = scrape()?;
        costs.push(cost);
        let now = full_syncs(&page)?;
        if now.0 > before.0 {
            return Ok((costs, now.1 - before.1));
        }
    }
    Err("the rules were not rewritten".into())
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
