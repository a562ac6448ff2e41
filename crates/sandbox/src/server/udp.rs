//! One answer to each datagram.

use std::net::UdpSocket;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

use super::Control;

pub(super) fn serve(socket: &UdpSocket, name: &str, control: &Control) {
    let mut datagram = [0; 2048];
    loop {
        let mut waiting = [
            PollFd::from_borrowed_fd(control.stop(), PollFlags::IN),
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
        ];
        match poll(&mut waiting, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !waiting[0].revents().is_empty() => return,
            Ok(_) => {}
        }
        // An error here is an ICMP answer to something we sent, or a bad checksum: nothing to do with us.
        if let Ok((_, client)) = socket.recv_from(&mut datagram) {
            control.count();
            let _ = socket.send_to(format!("{name} {} {}", client.ip(), client.port()).as_bytes(), client);
        }
    }
}
