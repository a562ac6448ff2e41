//! Endpoints and clients that misbehave, or that move much data.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketType};
use sandbox::Namespace;

use super::super::stage::answer;

/// Listen at every address of a namespace, in both families.
pub(crate) fn listen(namespace: &Namespace, port: u16) -> TcpListener {
    namespace.run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))).unwrap()
}

pub(crate) fn connect(namespace: &Namespace, to: SocketAddr) -> TcpStream {
    let stream = namespace.run(|| TcpStream::connect_timeout(&to, answer())).unwrap();
    stream.set_read_timeout(Some(answer())).unwrap();
    stream
}

/// The same from a port that other connections may have, too.
pub(crate) fn connect_from(namespace: &Namespace, port: u16, to: SocketAddr) -> std::io::Result<TcpStream> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = namespace.run(|| rustix::net::socket(family, SocketType::STREAM, None))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    for timeout in [Timeout::Send, Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, timeout, Some(answer()))?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(any, port))?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
}

/// Which pod is at the other end.
pub(crate) fn who(client: &mut TcpStream) -> String {
    client.write_all(b"who\n").unwrap();
    let mut answer = [0; 256];
    let count = client.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
    answer.split_whitespace().next().unwrap_or_default().to_owned()
}

/// Serve each connection on a thread of its own.
pub(crate) fn serve(namespace: &Namespace, port: u16, serve: fn(TcpStream)) {
    let listener = listen(namespace, port);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || serve(client));
        }
    });
}

/// Sends without end, whether or not anything is read.
pub(crate) fn flood(mut client: TcpStream) {
    let zeros = vec![0; 64 * 1024];
    while client.write_all(&zeros).is_ok() {}
}

/// Bytes in each half of an exchange.
pub(crate) const HALF: usize = 16 * 1024 * 1024;
const BLOCK: usize = 8192;

/// Blocks of bytes that differ from one another, the same ones for the same seed.
fn blocks(seed: u64) -> impl Iterator<Item = [u8; BLOCK]> {
    let mut state = seed;
    let block = move || {
        let mut block = [0; BLOCK];
        for eight in block.chunks_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            eight.copy_from_slice(&state.to_be_bytes());
        }
        block
    };
    std::iter::repeat_with(block).take(HALF / BLOCK)
}

fn sum_of(seed: u64) -> u64 {
    let mut sum = DefaultHasher::new();
    blocks(seed).for_each(|block| sum.write(&block));
    sum.finish()
}

fn send(mut to: &TcpStream, seed: u64) {
    blocks(seed).for_each(|block| to.write_all(&block).unwrap());
}

/// What a half that is read comes to.
fn receive(mut from: &TcpStream) -> u64 {
    let (mut sum, mut block) = (DefaultHasher::new(), [0; BLOCK]);
    for _ in 0..HALF / BLOCK {
        from.read_exact(&mut block).unwrap();
        sum.write(&block);
    }
    sum.finish()
}

fn has_ended(mut stream: &TcpStream) -> bool {
    stream.read(&mut [0]).unwrap() == 0
}

/// The server's part: half while the client sends, and half when the client has ended.
pub(crate) fn answer_much(client: TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| send(&client, 1));
        assert_eq!(receive(&client), sum_of(3));
        assert!(has_ended(&client));
    });
    send(&client, 2);
}

/// The client's part: it sends, and says that it has ended while it still reads.
pub(crate) fn ask_for_much(server: &TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send(server, 3);
            server.shutdown(Shutdown::Write).unwrap();
        });
        assert_eq!(receive(server), sum_of(1), "while both send");
        // It comes only if the server got everything and its end.
        assert_eq!(receive(server), sum_of(2), "after the client has ended");
        assert!(has_ended(server));
    });
}
