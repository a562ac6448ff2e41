//! What `--version` says: the Kubernetes release whose kube-proxy this one stands in for, with our own version behind a
//! plus sign, as other distributions of Kubernetes do.

/// The major and minor number of that release.
pub const KUBERNETES: (&str, &str) = ("1", "37");

/// As a whole, such as `v1.37.1+pointsman.0.1.0`.
pub const FULL: &str = concat!("v1.37.1+pointsman.", env!("CARGO_PKG_VERSION"));

/// One line, with the words that scripts cut at.
pub(crate) fn line() -> String {
    format!("Kubernetes {FULL}\n")
}

/// As Go prints the record, for `--version=raw`. What has no counterpart here is empty.
pub(crate) fn raw() -> String {
    let (major, minor) = KUBERNETES;
    let platform = platform();
    let fields = [
        ("Major", major),
        ("Minor", minor),
        ("EmulationMajor", ""),
        ("EmulationMinor", ""),
        ("MinCompatibilityMajor", ""),
        ("MinCompatibilityMinor", ""),
        ("GitVersion", FULL),
        ("GitCommit", ""),
        ("GitTreeState", ""),
        ("BuildDate", ""),
        ("GoVersion", ""),
        ("Compiler", "rustc"),
        ("Platform", &platform),
    ];
    let fields = fields.map(|(name, value)| format!("{name}:{value:?}"));
    format!("version.Info{{{}}}\n", fields.join(", "))
}

/// Such as `linux/amd64`.
pub fn platform() -> String {
    format!("{}/{}", std::env::consts::OS, architecture())
}

/// By Go's names.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
