//! Which iptables a program is, by what it answers to `--version`.

use std::fmt;

/// The two that share a name: the one over the kernel's ip_tables, and the one over nf_tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    Legacy,
    Nft,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub [u32; 3]);

impl Version {
    /// `iptables-restore` knows `--wait` from then on.
    pub const NEEDED: Version = Version([1, 6, 2]);
}

impl Variant {
    pub const BOTH: [Variant; 2] = [Variant::Legacy, Variant::Nft];

    pub fn other(self) -> Variant {
        match self {
            Variant::Legacy => Variant::Nft,
            Variant::Nft => Variant::Legacy,
        }
    }

    /// What is behind the name of a program of which both are installed.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Variant::Legacy => "-legacy",
            Variant::Nft => "-nft",
        }
    }
}

/// From a line such as `iptables v1.8.9 (nf_tables)`. Before 1.8 there was one variant, and no word for it.
pub(crate) fn parse(line: &str) -> Option<(Version, Variant)> {
    let (_, rest) = line.split_once(" v")?;
    let number = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut parts = number.split('.').map(str::parse);
    let major = parts.next()?.ok()?;
    let mut further = || parts.next().and_then(Result::ok).unwrap_or(0);
    let version = Version([major, further(), further()]);
    let variant = if rest.contains("(nf_tables)") { Variant::Nft } else { Variant::Legacy };
    Some((version, variant))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Variant::Legacy => "legacy",
            Variant::Nft => "nf_tables",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_twenty_years_are_read() {
        for (line, version, variant) in [
            ("iptables v1.8.9 (nf_tables)\n", [1, 8, 9], Variant::Nft),
            ("ip6tables v1.8.11 (legacy)", [1, 8, 11], Variant::Legacy),
            ("iptables v1.4.21", [1, 4, 21], Variant::Legacy),
            ("iptables v1.8 (legacy)", [1, 8, 0], Variant::Legacy),
        ] {
            assert_eq!(parse(line), Some((Version(version), variant)), "{line}");
        }
        assert_eq!(parse("BusyBox"), None);
        assert!(Version([1, 10, 0]) > Version::NEEDED);
    }
}
