//! Whether this process may do what the measurements need.

use kernel::netns::Namespace;

const CAP_NET_ADMIN: u64 = 1 << 12;

/// An error says why not.
pub fn check() -> Result<(), String> {
    Namespace::new().map_err(|error| error.to_string())?;
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let status = read("status");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default();
    // In the initial user namespace every user stands for himself.
    let map = read("uid_map");
    let is_initial = map.split_whitespace().eq(["0", "0", "4294967295"]);
    match is_initial && effective & CAP_NET_ADMIN != 0 {
        true => Ok(()),
        false => {
            Err("needs CAP_NET_ADMIN in the initial user namespace (a full load wants SO_SNDBUFFORCE); \
                      run it as root"
                .into())
        }
    }
}
