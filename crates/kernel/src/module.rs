//! Kernel modules: whether one is loaded, and loading one without `modprobe`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Whether a loadable module is loaded; `false` for what is built in.
pub fn is_loaded(name: &str) -> bool {
    // What is built in may have parameters there, but no state.
    is_plain(name) && Path::new("/sys/module").join(name).join("initstate").exists()
}

/// Let the kernel run its `modprobe`, which sees the machine's modules even if this process runs in a container. Needs
/// CAP_SYS_MODULE; look with [`is_loaded`] whether it helped.
///
/// The kernel looks for a network driver of that name when someone asks for an interface that does not exist, and
/// after that for any module of that name.
pub fn request(name: &str) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays NUL.
    if !is_plain(name) || name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    // SAFETY: a plain system call; a non-negative result is a descriptor that nothing else owns.
    let socket = unsafe {
        let raw = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(raw)
    };
    // SAFETY: the pointer is to a live ifreq, which is what this request reads and writes. That there is no such
    // interface is the answer expected.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as libc::Ioctl, &mut request) };
    Ok(())
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_asked_for() {
        for name in ["", "../x", "a b", "ip_vs\0", "a_name_that_is_too_long"] {
            assert!(request(name).is_err(), "{name:?}");
            assert!(!is_loaded(name), "{name:?}");
        }
        assert!(!is_loaded("no_such_module"));
    }
}
