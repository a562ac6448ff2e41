//! `NO_PROXY`: the servers that are reached without a proxy, as Go's programs read it.

use std::net::IpAddr;

use hyper::Uri;
use ipnet::IpNet;

/// Whether `server` is among them. An entry that makes no sense is skipped.
pub(super) fn covers(list: &str, server: &Uri) -> bool {
    let Some(host) = server.host() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let mut entries = list.split(',').map(|entry| entry.trim().to_ascii_lowercase());
    entries.any(|entry| entry == "*" || matches(&entry, &host, address, port))
}

fn matches(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if let Ok(range) = entry.parse::<IpNet>() {
        return address.is_some_and(|address| range.contains(&address));
    }
    if let Ok(entry) = entry.parse::<IpAddr>() {
        return address == Some(entry);
    }
    let (name, only) = match entry.rsplit_once(':') {
        Some((name, only)) => (name, only.parse::<u16>().ok()),
        None => (entry, None),
    };
    if name.is_empty() || only.is_some_and(|only| only != port) {
        return false;
    }
    if let Ok(name) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return address == Some(name);
    }
    // `example.org` is the domain and all below it, `.example.org` and `*.example.org` are only what is below.
    let below = name.trim_start_matches('*');
    match below.strip_prefix('.') {
        Some(_) => host.ends_with(below),
        None => host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_names_addresses_and_ranges() {
        let list = "10.0.0.0/8, 192.0.2.1,example.org ,.example.com,*.example.net,[fd00::1]:6443,named:8443";
        for (server, expected) in [
            ("https://10.1.2.3:6443", true),
            ("https://11.1.2.3:6443", false),
            ("https://192.0.2.1", true),
            ("https://example.org", true),
            ("https://a.example.org:6443", true),
            ("https://notexample.org", false),
            ("https://example.com", false),
            ("https://a.EXAMPLE.com", true),
            ("https://a.example.net", true),
            ("https://[fd00::1]:6443", true),
            ("https://[fd00::1]:443", false),
            ("https://named:8443", true),
            ("https://named", false),
            ("https://localhost:6443", true),
            ("https://127.0.0.1:6443", true),
        ] {
            assert_eq!(covers(list, &server.parse().unwrap()), expected, "{server}");
        }
        assert!(covers("*", &"https://anything".parse().unwrap()));
        assert!(!covers("", &"https://anything".parse().unwrap()));
        assert!(!covers(", :443", &"https://anything".parse().unwrap()));
    }
}
