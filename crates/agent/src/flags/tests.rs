use super::*;

fn given(arguments: &[&str]) -> Result<Command, String> {
    parse(arguments.iter().map(OsString::from))
}

fn options(arguments: &[&str]) -> Options {
    match given(arguments) {
        Ok(Command::Run(options)) => *options,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

#[test]
fn values_come_in_every_form() {
    for form in
        [&["--manifests=x", "-v=4"][..], &["--manifests", "x", "-v", "4"], &["-manifests", "x", "-v=4"]]
    {
        let options = options(form);
        assert_eq!(options.manifests, std::path::Path::new("x"), "{form:?}");
        assert_eq!(options.verbosity, 4, "{form:?}");
    }
    assert!(options(&["--masquerade-all", "--manifests=x"]).settings.masquerade_all);
    assert!(!options(&["--masquerade-all=false", "--manifests=x"]).settings.masquerade_all);
}

#[test]
fn every_error_is_reported_at_once_with_its_flag() {
    let message = given(&[
        "extra",
        "--nonsense",
        "--cluster-cidr=10.0.0.0/8,10.1.0.0/16",
        "--nodeport-addresses=here",
        "--iptables-min-sync-period=2x",
        "--iptables-masquerade-bit=32",
        "--healthz-bind-address=nowhere",
        "--proxy-mode=ipvs",
    ])
    .unwrap_err();
    for part in [
        "\"extra\"",
        "--nonsense",
        "more than one IPv4 prefix",
        "--nodeport-addresses",
        "--iptables-min-sync-period",
        "--iptables-masquerade-bit",
        "--healthz-bind-address",
        "mode ipvs is not in this build",
        "--manifests: name a file or folder",
    ] {
        assert!(message.contains(part), "{part} is missing in:\n{message}");
    }
}

#[test]
fn flags_that_are_still_missing_are_told_from_typing_errors() {
    let message = given(&["--kubeconfig", "/etc/kube", "--kubecnfig=x", "--manifests=m"]).unwrap_err();
    assert!(message.contains("--kubeconfig is not in this build yet"), "{message}");
    assert!(message.contains("unknown flag --kubecnfig"), "{message}");
    assert!(!message.contains("/etc/kube"), "{message}");
}

#[test]
fn a_flag_without_its_value_is_an_error() {
    assert!(given(&["--manifests"]).unwrap_err().contains("--manifests: a value is missing"));
}

#[test]
fn detectors() {
    let with = |more: &[&str]| options(&[&["--manifests=x"], more].concat()).detector;
    assert_eq!(with(&[]), model::LocalDetector::None);
    assert!(
        matches!(with(&["--cluster-cidr=10.244.0.0/16,fd00::/48"]), model::LocalDetector::Cidrs(nets) if nets.len() == 2)
    );
    assert_eq!(
        with(&["--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cbr0"]),
        model::LocalDetector::Bridge("cbr0".into())
    );
    let message = given(&["--manifests=x", "--detect-local-mode=InterfaceNamePrefix"]).unwrap_err();
    assert!(message.contains("--pod-interface-name-prefix"), "{message}");
}

#[test]
fn help_names_every_flag() {
    let text = help();
    for flag in FLAGS {
        assert!(text.contains(&format!("--{}", flag.name)), "{}", flag.name);
    }
}
