//! Options of sockets that no safe wrapper offers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Give every packet that the socket sends this mark. Needs `CAP_NET_ADMIN`.
pub fn set_mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<u32>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open for as long as it is borrowed; the call reads `length` bytes from the pointer, which
    // points to a number of that size that lives on.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            std::ptr::from_ref(&mark).cast(),
            length,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
