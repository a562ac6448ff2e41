use super::*;
use crate::{DetectLocal, Source};

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
        assert_eq!(options.source, Source::Manifests("x".into()), "{form:?}");
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
    ] {
        assert!(message.contains(part), "{part} is missing in:\n{message}");
    }
}

#[test]
fn flags_that_are_still_missing_are_told_from_typing_errors() {
    let message = given(&["--config", "/etc/kube", "--kubecnfig=x", "--manifests=m"]).unwrap_err();
    assert!(message.contains("--config is not in this build yet"), "{message}");
    assert!(message.contains("unknown flag --kubecnfig"), "{message}");
    assert!(!message.contains("/etc/kube"), "{message}");
}

#[test]
fn a_flag_without_its_value_is_an_error() {
    assert!(given(&["--manifests"]).unwrap_err().contains("--manifests: a value is missing"));
}

#[test]
fn detectors() {
    let with = |more: &[&str]| match options(&[&["--manifests=x"], more].concat()).detect_local {
        DetectLocal::Fixed(detector) => detector,
        DetectLocal::NodeCidr => panic!("{more:?}"),
    };
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
fn sources() {
    let apiserver = |arguments: &[&str]| match options(arguments).source {
        Source::Apiserver(apiserver) => apiserver,
        Source::Manifests(path) => panic!("{arguments:?}: {path:?}"),
    };
    let in_cluster = apiserver(&[]);
    assert_eq!((in_cluster.kubeconfig, in_cluster.master), (None, None));
    assert_eq!((in_cluster.content_type, in_cluster.burst), (ContentType::Protobuf, 10));
    let outside =
        apiserver(&["--kubeconfig=/k", "--master=https://m", "--kube-api-content-type=application/json"]);
    assert_eq!(outside.kubeconfig.as_deref(), Some(std::path::Path::new("/k")));
    assert_eq!((outside.master.as_deref(), outside.content_type), (Some("https://m"), ContentType::Json));
    for other in ["--kubeconfig=/k", "--master=https://m"] {
        let message = given(&["--manifests=x", other]).unwrap_err();
        assert!(message.contains("--manifests: objects come from"), "{message}");
    }
}

#[test]
fn help_names_every_flag() {
    let text = help();
    for flag in FLAGS {
        assert!(text.contains(&format!("--{}", flag.name)), "{}", flag.name);
    }
}
