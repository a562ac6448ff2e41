//! Clients that open connections and say nothing, send without end, or read nothing: the probes are answered, changes
//! reach the rules, and memory has an end.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::Family;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandbox::Namespace;
use test_support::{Case, SOON, Verdict, patient, wait_until};

use crate::ask;
use crate::site::{PAGES, PROBES, Site};

const CROWD: usize = 1000;
/// How often each of them says more, and how many of those that were sent away come back then. With more it would be
/// the processors of this machine that are short.
const BETWEEN_WORDS: Duration = Duration::from_millis(500);
const BACK_AT_ONCE: usize = 50;
/// A load balancer gives up after some seconds. Single answers may be late on a busy machine.
const IN_TIME: Duration = Duration::from_secs(2);
/// Buffers of all connections that three servers hold, and some.
const MOST_KIB: usize = 32 * 1024;
/// Connections that three servers hold, those that are being sent away, and the agent's own files.
const MOST_FILES: usize = 256 + 16 + 256 + 3 * 32 + 64;
const CHECK: &str = "127.0.0.1:32000";

pub(crate) fn cases() -> Vec<Case<'static>> {
    let case = |name: &'static str, first: &'static [u8], more: &'static [u8]| {
        Case::new(name, move || withstand(Manner { first, more }))
    };
    let asked = b"GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n";
    let body = b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    vec![
        case("1000 connections that say nothing", b"", b""),
        case("1000 requests that never end", b"GET /healthz HTTP/1.1\r\nX: ", b"aaaaaaaaaaaaaaaa"),
        case("1000 bodies that never end", body, b"1\r\na\r\n"),
        case("1000 clients that ask and never read", asked, asked),
    ]
}

/// How a client behaves.
#[derive(Clone, Copy)]
struct Manner {
    first: &'static [u8],
    /// Sent repeatedly, for as long as the other side takes it.
    more: &'static [u8],
}

/// Opens connections, and opens them again as they are closed.
struct Crowd {
    is_over: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    fn gather(from: &Namespace, at: &str, manner: Manner) -> Crowd {
        let (from, at): (Namespace, SocketAddr) = (from.try_clone().unwrap(), at.parse().unwrap());
        let (is_over, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (over, count) = (is_over.clone(), opened.clone());
        let thread = std::thread::spawn(move || {
            let mut crowd: Vec<Option<TcpStream>> = (0..CROWD).map(|_| None).collect();
            let mut may_come = CROWD;
            while !over.load(Ordering::Relaxed) {
                for place in &mut crowd {
                    if place.as_mut().is_some_and(|stream| go_on(stream, manner.more)) {
                        continue;
                    }
                    *place = None;
                    if may_come > 0 && !over.load(Ordering::Relaxed) {
                        may_come -= 1;
                        *place = open(&from, at, manner.first);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                may_come = BACK_AT_ONCE;
                std::thread::sleep(BETWEEN_WORDS);
            }
        });
        Crowd { is_over, opened, thread: Some(thread) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn open(from: &Namespace, at: SocketAddr, first: &[u8]) -> Option<TcpStream> {
    let mut stream = from.run(|| TcpStream::connect_timeout(&at, Duration::from_secs(1))).ok()?;
    stream.set_nonblocking(true).ok()?;
    stream.write_all(first).ok()?;
    Some(stream)
}

/// `false`: the other side has had enough.
fn go_on(stream: &mut TcpStream, more: &[u8]) -> bool {
    match stream.write(more) {
        Ok(written) => written == more.len(),
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

fn resident_kib(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn files(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

fn withstand(manner: Manner) -> Verdict {
    let limit = getrlimit(Resource::Nofile);
    let needed = 4 * CROWD as u64 * 2;
    if limit.maximum.is_some_and(|most| most < needed) {
        return Verdict::Skipped(format!("needs {needed} open files"));
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let site = Site::start(&["--nodeport-addresses=all"]);
    site.put_checked("web", 32000);
    site.await_reply(CHECK, "/", |reply| reply.code == 503);
    let before = resident_kib(site.agent.process());
    let crowds = [PROBES, PAGES, CHECK].map(|at| Crowd::gather(&site.namespace, at, manner));
    let is_there = |crowd: &Crowd| crowd.opened.load(Ordering::Relaxed) >= CROWD;
    assert!(wait_until(5 * SOON, || crowds.iter().all(is_there)), "the crowd does not gather");
    let (mut times, mut most_kib, mut most_files) = (Vec::new(), 0, 0);
    for here in 1..=10 {
        // A change goes all the way: to the rules, and then to the answers.
        site.put_endpoints("web", Family::V4, here);
        let weight = here.to_string();
        let wanted = |reply: &ask::Reply| reply.header("X-Load-Balancing-Endpoint-Weight") == Some(&weight);
        site.await_reply(CHECK, "/", wanted);
        for (at, path) in [(PROBES, "/livez"), (PROBES, "/healthz"), (PAGES, "/metrics"), (CHECK, "/")] {
            let asked = Instant::now();
            let reply = site.try_get(at, path);
            times.push(asked.elapsed());
            assert!(reply.as_ref().is_ok_and(|reply| reply.code == 200), "{at}{path}: {reply:?}");
        }
        most_kib = most_kib.max(resident_kib(site.agent.process()));
        most_files = most_files.max(files(site.agent.process()));
    }
    let opened: usize = crowds.iter().map(|crowd| crowd.opened.load(Ordering::Relaxed)).sum();
    drop(crowds);
    times.sort();
    let (usual, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{opened} connections: answers after {usual:?}, the slowest after {slowest:?}; memory {before} KiB before, {most_kib} at most; {most_files} files"
    );
    assert!(usual < patient(IN_TIME), "an answer usually took {usual:?}");
    assert!(most_kib < before + MOST_KIB, "{before} KiB became {most_kib}");
    assert!(most_files < MOST_FILES, "{most_files} files are open");
    Verdict::Passed
}
