//! An endpoint: one thread that serves any number of clients, so that it costs every proxy the same.
//!
//! A client says one byte. `q` is answered by the server's name, one byte, and the end; `e` by the name each time; `s` by
//! zeros without end, and `l` by the same with little of them in the server's own buffers.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use sandbox::Namespace;

use crate::Failure;

const ZEROS: usize = 256 * 1024;
const LITTLE: usize = 64 * 1024;
/// Between two looks whether to go on.
const LOOK: Duration = Duration::from_millis(50);
const LISTENER: u64 = u64::MAX;

/// Ends when it is dropped, and with it all its connections, as if its process were killed.
pub(super) struct Server {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(namespace: &Namespace, at: SocketAddr, name: u8) -> Result<Server, Failure> {
        let listener = namespace.try_run(|| TcpListener::bind(at))??;
        listener.set_nonblocking(true)?;
        // As many as come at once, instead of the 128 that the standard library asks for.
        rustix::net::listen(&listener, 65_535)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = std::thread::spawn(move || drop(serve(&listener, name, &seen)));
        Ok(Server { is_over, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that has panicked is gone as well.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, name: u8, is_over: &AtomicBool) -> std::io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut clients: HashMap<u64, TcpStream> = HashMap::new();
    let zeros = vec![0; ZEROS];
    let mut events = Vec::with_capacity(256);
    let look = Timespec::try_from(LOOK).unwrap_or_default();
    while !is_over.load(Ordering::Relaxed) {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&look))?;
        for event in &events {
            let (id, flags) = (event.data.u64(), event.flags);
            if id == LISTENER {
                while let Ok((client, _)) = listener.accept() {
                    client.set_nonblocking(true)?;
                    client.set_nodelay(true)?;
                    let id = u64::from(client.as_raw_fd().unsigned_abs());
                    epoll::add(&epoll, &client, EventData::new_u64(id), EventFlags::IN)?;
                    clients.insert(id, client);
                }
            } else if let Some(client) = clients.get(&id) {
                match answer(client, name, flags.contains(EventFlags::OUT), &zeros) {
                    Next::Ask => {}
                    Next::Write => {
                        epoll::modify(&epoll, client, event.data, EventFlags::OUT)?;
                    }
                    Next::End => drop(clients.remove(&id)),
                }
            }
        }
    }
    Ok(())
}

enum Next {
    Ask,
    Write,
    End,
}

fn answer(mut client: &TcpStream, name: u8, is_streaming: bool, zeros: &[u8]) -> Next {
    if is_streaming {
        return write(client, zeros);
    }
    let mut said = [0];
    match (client.read(&mut said), said) {
        (Ok(1), [b'q']) => {
            let _ = client.write(&[name]);
            Next::End
        }
        (Ok(1), [b'e']) if client.write(&[name]).is_ok() => Next::Ask,
        (Ok(1), [b's']) => write(client, zeros),
        (Ok(1), [b'l']) => {
            let _is_larger = rustix::net::sockopt::set_socket_send_buffer_size(client, LITTLE);
            write(client, zeros)
        }
        (Err(error), _) if error.kind() == ErrorKind::WouldBlock => Next::Ask,
        _ => Next::End,
    }
}

fn write(mut client: &TcpStream, zeros: &[u8]) -> Next {
    // Not for longer than others can wait.
    for _ in 0..4 {
        match client.write(zeros) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return Next::End,
        }
    }
    Next::Write
}
