//! The socket filter that keeps our own commits away, in classic BPF.

use std::io;

use crate::netlink::Socket;

const NLMSG_PID_OFFSET: u32 = 12;

/// Drop every datagram whose first message was caused by the socket of that port. All messages of a
/// datagram come from one commit, so that the first speaks for the rest.
pub(super) fn drop_port(socket: &Socket, port: u32) -> io::Result<()> {
    socket.attach_filter(&program(port))
}

fn program(port: u32) -> [libc::sock_filter; 4] {
    let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NLMSG_PID_OFFSET),
        // BPF loads words in network byte order; the header has them in the host's.
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, port.to_be()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ]
}
