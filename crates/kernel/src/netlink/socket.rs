//! The socket: one place for every netlink system call.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Links, addresses, routes.
    Route,
    /// nf_tables, conntrack, ipset.
    Netfilter,
    /// Families that are found by name: IPVS.
    Generic,
}

/// A bound netlink socket of the network namespace the calling thread was in when it was made.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    port: u32,
}

impl Socket {
    pub fn open(protocol: Protocol) -> io::Result<Socket> {
        let number = match protocol {
            Protocol::Route => libc::NETLINK_ROUTE,
            Protocol::Netfilter => libc::NETLINK_NETFILTER,
            Protocol::Generic => libc::NETLINK_GENERIC,
        };
        // SAFETY: plain system call; a non-negative result is a descriptor that nothing else owns.
        let fd = unsafe {
            let raw = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, number);
            OwnedFd::from_raw_fd(check(raw)?)
        };
        let port = bind(&fd)?;
        Ok(Socket { fd, port })
    }

    /// The port id the kernel gave this socket; notifications caused by it carry it.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Join a multicast group (`NFNLGRP_*`, `RTNLGRP_*`).
    pub fn join(&self, group: u32) -> io::Result<()> {
        self.option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group as libc::c_int)
    }

    /// Leave out the copied request in acknowledgements, and let the kernel explain errors (`NLMSGERR_ATTR_*`).
    pub fn explain_errors(&self) -> io::Result<()> {
        self.option(libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1)?;
        self.option(libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, 1)
    }

    /// Let the kernel filter dumps by what the question holds, and refuse questions that it does not understand
    /// (Linux 4.20 and later; older ones list everything).
    pub fn filter_dumps(&self) -> io::Result<()> {
        self.option(libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK, 1)
    }

    /// Room for one datagram of `bytes`. Beyond the system's limit this needs CAP_NET_ADMIN in the
    /// initial user namespace; without it the limit holds and the error is left to `send`.
    pub fn reserve_send_buffer(&self, bytes: usize) -> io::Result<()> {
        let size = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        self.option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, size)
            .or_else(|_| self.option(libc::SOL_SOCKET, libc::SO_SNDBUF, size))
    }

    pub fn reserve_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        let size = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        self.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, size)
            .or_else(|_| self.option(libc::SOL_SOCKET, libc::SO_RCVBUF, size))
    }

    /// `None` waits for ever; an elapsed timeout is `ErrorKind::WouldBlock`.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.unwrap_or_default();
        let value = libc::timeval { tv_sec: timeout.as_secs() as _, tv_usec: timeout.subsec_micros() as _ };
        // SAFETY: SO_RCVTIMEO takes a timeval, which holds no pointers.
        unsafe { self.raw_option(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &value) }
    }

    /// Let a classic BPF program decide which datagrams arrive here.
    pub(crate) fn attach_filter(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let len = libc::c_ushort::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
        // SAFETY: SO_ATTACH_FILTER takes a sock_fprog; pointer and length in it describe the borrowed slice,
        // which the kernel only reads, and copies before the call returns.
        unsafe { self.raw_option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
    }

    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length describe the borrowed slice.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), datagram.as_ptr().cast(), datagram.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receive one datagram into `buffer` (grown to fit) and return its bytes.
    pub fn receive<'b>(&self, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        let wanted = self.receive_raw(&mut [], libc::MSG_PEEK | libc::MSG_TRUNC)?;
        if buffer.len() < wanted {
            buffer.resize(wanted.max(32 * 1024), 0);
        }
        let length = self.receive_raw(buffer, 0)?;
        Ok(&buffer[..length.min(buffer.len())])
    }

    /// Receive a datagram that has arrived already, cut to `buffer`, or `None` if there is none.
    pub fn receive_arrived<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match self.receive_raw(buffer, libc::MSG_DONTWAIT) {
            Ok(length) => Ok(buffer.get(..length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes the send buffer holds now, as the kernel counts them.
    pub fn send_buffer(&self) -> io::Result<usize> {
        let mut value: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `value` and `length` are live and `length` is the size of `value`.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                std::ptr::from_mut(&mut value).cast(),
                &mut length,
            )
        };
        check(result)?;
        Ok(usize::try_from(value).unwrap_or_default())
    }

    fn receive_raw(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        loop {
            // SAFETY: pointer and length describe the exclusively borrowed slice.
            let got =
                unsafe { libc::recv(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
            if got >= 0 {
                return Ok(got as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the kernel checks the size of what an option takes, and an integer holds no pointers.
        unsafe { self.raw_option(level, name, &value) }
    }

    /// # Safety
    ///
    /// `T` is what the kernel reads for this option, and pointers in it are to memory that lives until the
    /// call returns and is as long as `value` says.
    unsafe fn raw_option<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: `value` is a live reference of exactly the given size; the caller answers for what is in it.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        check(result).map(drop)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn bind(fd: &OwnedFd) -> io::Result<u32> {
    // SAFETY: sockaddr_nl is plain data for which all zeroes is a valid value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    let mut length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: both calls get a pointer to a live sockaddr_nl and its true length.
    unsafe {
        check(libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length))?;
        check(libc::getsockname(fd.as_raw_fd(), std::ptr::from_mut(&mut address).cast(), &mut length))?;
    }
    Ok(address.nl_pid)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
