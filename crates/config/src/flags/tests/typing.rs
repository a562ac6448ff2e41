//! What is typed, and what is answered.

use super::*;

/// In the shape of other Kubernetes programs, because scripts cut it into words.
#[test]
fn versions() {
    let said = |argument| match given(&[argument, "--nonsense"]) {
        Ok(Parsed { command: Command::Print(text), .. }) => text,
        other => panic!("{argument}: {other:?}"),
    };
    let full = format!("v1.37.1+pointsman.{}", env!("CARGO_PKG_VERSION"));
    for plain in ["--version", "--version=true", "--version=1"] {
        assert_eq!(said(plain), format!("Kubernetes {full}\n"));
    }
    let raw = said("--version=raw");
    assert!(raw.starts_with("version.Info{Major:\"1\", Minor:\"37\", "), "{raw}");
    assert!(raw.contains(&format!(", GitVersion:{full:?}, ")) && raw.ends_with("\"}\n"), "{raw}");
    for none in ["--version=false", "--version=v1.37.1-mine"] {
        options(&[none]);
    }
    assert!(given(&["--version=maybe"]).unwrap_err().contains("not one of true, false and raw"));
}

#[test]
fn slips_get_a_suggestion() {
    for (argument, words) in [
        ("--proxy-mod=nftables", "unknown flag --proxy-mod; did you mean --proxy-mode?"),
        ("--masqerade_all", "unknown flag --masqerade_all; did you mean --masquerade-all?"),
        ("--versoin", "did you mean --version?"),
        ("--nonsense", "unknown flag --nonsense; see --help"),
        ("--feature-gates=KubeProxyIPSV=true", "remove or correct it; did you mean KubeProxyIPVS?"),
    ] {
        let message = given(&[argument]).unwrap_err();
        assert!(message.contains(words), "{message}");
    }
    let file = ConfigFile::with("iptables: {masqueradeBits: 3}\n");
    let warnings = warnings(&[&file.flag()]);
    assert!(warnings.ends_with("has no effect; did you mean iptables.masqueradeBit?"), "{warnings}");
}

/// As upstream: a flag that does not count must still be readable, but need not make sense.
#[test]
fn bad_values_beside_a_file() {
    let file = ConfigFile::with("mode: nftables\n");
    for moot in [
        "--iptables-masquerade-bit=32",
        "--proxy-mode=foo",
        "--detect-local-mode=foo",
        "--oom-score-adj=5000",
        "--cluster-cidr=x",
        "--feature-gates=Foo=true",
        "--iptables-sync-period=-1s",
        "--config-sync-period=0",
        "--nodeport-addresses=x",
        "--ipvs-exclude-cidrs=x",
    ] {
        assert!(given(&[moot]).is_err(), "{moot}");
        let warnings = warnings(&[&file.flag(), moot]);
        assert!(warnings.contains("Ignored because --config is set"), "{moot}: {warnings}");
    }
    for wrong in [
        "--iptables-masquerade-bit=x",
        "--healthz-bind-address=nowhere",
        "--bind-address=nowhere",
        "--feature-gates=Foo=maybe",
        "--feature-gates=Foo",
        "--config-sync-period=x",
        "--kube-api-qps=fast",
        "--masquerade-all=perhaps",
        "--logging-format=xml",
        "--vmodule=a",
        "--log-text-info-buffer-size=x",
        "--v=-1",
        "--nonsense",
    ] {
        assert!(given(&[&file.flag(), wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn help_names_every_flag_and_its_default() {
    let text = help();
    let settings = crate::settings::all().filter_map(|setting| setting.flag);
    for usage in settings.chain(orders::ORDERS.iter().map(|order| order.usage)) {
        assert!(text.contains(&format!("--{}", usage.name)), "{}", usage.name);
    }
    assert!(text.contains("--conntrack-tcp-timeout-established DURATION [24h0m0s]\n"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    assert!(text.contains("KubeProxyNFTablesLocalhostNodePorts=false"), "{text}");
}
