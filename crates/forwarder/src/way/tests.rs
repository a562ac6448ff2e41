//! One direction between real sockets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;

use super::*;

/// Both ends of a connection; what the forwarder has comes second.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (own, _) = listener.accept().unwrap();
    own.set_nonblocking(true).unwrap();
    (peer, own)
}

/// Wait until something is there to be read.
fn await_bytes(socket: &TcpStream, count: usize) {
    let mut seen = vec![0; count];
    socket.set_nonblocking(false).unwrap();
    while socket.peek(&mut seen).is_ok_and(|there| there < count) {
        std::thread::yield_now();
    }
    socket.set_nonblocking(true).unwrap();
}

fn ready(is_hung: bool) -> Ready {
    Ready { readable: true, writable: true, is_hung, is_urgent: false }
}

fn pump(way: &mut Way, from: &TcpStream, to: &TcpStream, is_hung: bool) -> Result<Pause, Errno> {
    let (mut source, mut sink) = (ready(is_hung), ready(false));
    way.pump((from.as_fd(), &mut source), (to.as_fd(), &mut sink), &mut Tools::new(Memory::default()), false)
}

#[test]
fn the_end_goes_with_the_last_bytes() {
    let ((mut sender, from), (mut receiver, to)) = (pair(), pair());
    let mut way = Way::default();
    sender.write_all(b"answer").unwrap();
    drop(sender);
    await_bytes(&from, 6);
    assert_eq!(pump(&mut way, &from, &to, true), Ok(Pause::Over));
    assert_eq!((way.bytes, way.is_closed()), (6, true));
    let mut got = Vec::new();
    receiver.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"answer");
}

#[test]
fn a_reset_after_some_bytes_stays_a_reset() {
    let ((mut sender, from), (mut receiver, to)) = (pair(), pair());
    let mut way = Way::default();
    sender.write_all(b"half").unwrap();
    await_bytes(&from, 4);
    sockets::reset_on_close(&sender);
    drop(sender);
    let outcome = pump(&mut way, &from, &to, true);
    assert!(matches!(outcome, Err(Errno::CONNRESET)), "{outcome:?}");
    receiver.set_nonblocking(true).unwrap();
    let mut got = Vec::new();
    let rest = receiver.read_to_end(&mut got).map_err(|error| error.kind());
    assert_eq!(rest, Err(ErrorKind::WouldBlock), "it has not ended");
    assert!(got.is_empty() || got == b"half", "{got:?}");
}

#[test]
fn what_a_client_said_early_comes_first() {
    let ((mut client, from), (mut endpoint, to)) = (pair(), pair());
    let (mut way, mut tools) = (Way::default(), Tools::new(Memory::default()));
    let nothing_yet = way.read_early(from.as_fd(), &mut tools);
    assert_eq!((nothing_yet, way.holds_something()), (Ok(true), false));
    let said: Vec<u8> = (0..EARLY + 100).map(|number| number as u8).collect();
    client.write_all(&said).unwrap();
    await_bytes(&from, said.len());
    assert_eq!(way.read_early(from.as_fd(), &mut tools), Ok(true), "there is more");
    assert!(way.holds_something());
    drop(client);
    let (mut source, mut sink) = (ready(true), ready(false));
    let pumped = way.pump((from.as_fd(), &mut source), (to.as_fd(), &mut sink), &mut tools, false);
    assert_eq!((pumped, tools.pipes.memory.0.load(Ordering::Relaxed)), (Ok(Pause::Over), 0));
    let mut got = Vec::new();
    endpoint.read_to_end(&mut got).unwrap();
    assert_eq!(got, said);
}

#[test]
fn what_there_is_no_memory_for_stays_with_the_kernel() {
    let ((mut sender, from), (mut receiver, to)) = (pair(), pair());
    let mut tools = Tools::new(Memory::full());
    let before = tools.pipes.memory.0.load(Ordering::Relaxed);
    let said: Vec<u8> = (0..12_000_000_u32).map(|number| (number / 5) as u8).collect();
    let (mut way, all) = (Way::default(), said.clone());
    let writer = std::thread::spawn(move || sender.write_all(&all).unwrap());
    receiver.set_nonblocking(true).unwrap();
    let (mut got, mut block) = (Vec::<u8>::new(), vec![0; 1 << 20]);
    while got.len() < said.len() {
        // As events would tell; what has urgent data is not spliced.
        let (mut source, mut sink) = (Ready { is_urgent: true, ..ready(false) }, ready(false));
        let paused = way.pump((from.as_fd(), &mut source), (to.as_fd(), &mut sink), &mut tools, false);
        assert!(!way.holds_something() && tools.pipes.memory.0.load(Ordering::Relaxed) == before);
        if paused != Ok(Pause::HadItsTurn) {
            let count = receiver.read(&mut block).unwrap_or_default();
            got.extend(&block[..count]);
        }
    }
    writer.join().unwrap();
    assert!(got == said);
}

#[test]
fn an_endpoint_that_stops_reading_leaves_little_with_the_kernel() {
    let ((mut sender, from), (mut receiver, to)) = (pair(), pair());
    let (mut way, mut tools) = (Way::default(), Tools::new(Memory::default()));
    sender.set_nonblocking(true).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let (said, mut block, mut read) = (vec![7; 1 << 20], vec![0; 1 << 20], 0);
    let mut is_full = || {
        let is_at_a_loss = sender.write(&said).is_err();
        let (mut source, mut sink) = (ready(false), ready(false));
        let paused = way.pump((from.as_fd(), &mut source), (to.as_fd(), &mut sink), &mut tools, false);
        is_at_a_loss && paused == Ok(Pause::Waits) && !sink.writable
    };
    // As long as it reads, the kernel lets its socket grow.
    while read < 128 << 20 {
        is_full();
        read += receiver.read(&mut block).unwrap_or_default();
    }
    while !is_full() {}
    // What is on its way is acknowledged soon.
    let left = || kernel::socket::unacknowledged(&to).unwrap();
    assert!(crate::patience::soon(|| left() < 1 << 20), "{} bytes", left());
}
