//! The command line as a whole.

mod checks;
mod typing;

use std::time::Duration;

use super::*;
use crate::ContentType;
use crate::{DetectLocal, Source};
use model::{LocalDetector, NodePortAddresses};

fn given(arguments: &[&str]) -> Result<Parsed, String> {
    parse(arguments.iter().map(OsString::from), DefaultMode::nftables)
}

fn options(arguments: &[&str]) -> Options {
    match given(arguments) {
        Ok(Parsed { command: Command::Run(resolved), .. }) => resolved.options,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

fn warnings(arguments: &[&str]) -> String {
    given(arguments).unwrap().warnings.join("\n")
}

/// A file that is gone when the test ends.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn with(body: &str) -> ConfigFile {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pointsman-config-{}-{number}", std::process::id()));
        let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
        std::fs::write(&path, format!("{head}{body}")).unwrap();
        ConfigFile(path)
    }

    fn flag(&self) -> String {
        format!("--config={}", self.0.display())
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn values_come_in_every_form() {
    for form in [
        &["--manifests=x", "-v=4"][..],
        &["--manifests", "x", "-v", "4"],
        &["-manifests", "x", "--v=4"],
        &["--manifests=x", "-v4", ""],
        &["--manifests=x", "--v", "4"],
    ] {
        let parsed = given(form).unwrap();
        assert_eq!(parsed.logging.verbosity.0, 4, "{form:?}");
        assert_eq!(options(form).source, Source::Manifests("x".into()), "{form:?}");
    }
    assert!(options(&["--masquerade-all", "--manifests=x"]).settings.masquerade_all);
    assert!(!options(&["--masquerade-all=false", "--manifests=x"]).settings.masquerade_all);
    let underscored = options(&["--kube_api_qps=3", "--conntrack-min", "0x10"]);
    let Source::Apiserver(apiserver) = underscored.source else { panic!("{:?}", underscored.source) };
    assert_eq!((apiserver.qps, underscored.node.conntrack.min), (3.0, 16));
}

#[test]
fn every_error_is_reported_at_once_with_its_flag() {
    let message = given(&[
        "extra",
        "--nonsense",
        "--cluster-cidr=10.0.0.0/8,10.1.0.0/16",
        "--nodeport-addresses=here,primary,primary",
        "--iptables-min-sync-period=2x",
        "--iptables-masquerade-bit=32",
        "--healthz-bind-address=nowhere",
        "--metrics-bind-address=0.0.0.0:0",
        "--proxy-mode=ipsv",
        "--oom-score-adj=2000",
        "--conntrack-min=-1",
        "--config-sync-period=0s",
        "--feature-gates=Fancy=true,KubeProxyIPVS=perhaps",
        "--detect-local-mode=Guess",
        "--bind-address=here",
        "--log-text-split-stream",
        "--vmodule=a",
        "--kube-api-qps=fast",
        "--ipvs-exclude-cidrs=10.0.0.0/33",
        "--kube-api-content-type=text/html",
        "--healthz-port=70000",
        "--v",
    ])
    .unwrap_err();
    for part in [
        "unexpected argument \"extra\"",
        "unknown flag --nonsense",
        "--cluster-cidr: names more than one IPv4 prefix",
        "--nodeport-addresses[0]: \"here\" is not a prefix",
        "--nodeport-addresses[2]: \"primary\" is named twice",
        "--iptables-min-sync-period: \"2x\" is not a duration",
        "--iptables-masquerade-bit: must be a whole number from 0 to 31, not 32",
        "--healthz-bind-address: \"nowhere\" is not an address such as 0.0.0.0:10256",
        "--metrics-bind-address: \"0.0.0.0:0\" is not an address such as 0.0.0.0:10249",
        "--proxy-mode: \"ipsv\" is not a proxy mode; use nftables, iptables, ipvs or userspace; did you mean ipvs?",
        "--oom-score-adj: must be a whole number from -1000 to 1000, not 2000",
        "--conntrack-min: must be a whole number, 0 or more, not -1",
        "--config-sync-period: must be greater than 0, not 0s",
        "--feature-gates: \"Fancy\" is not a feature gate of Kubernetes 1.37",
        "KubeProxyIPVS: \"perhaps\" is neither true nor false",
        "--detect-local-mode: \"Guess\" is not a way to detect local traffic; use ClusterCIDR, NodeCIDR, \
         BridgeInterface or InterfaceNamePrefix",
        "--bind-address: \"here\" is not an IP address",
        "--log-text-split-stream: needs the feature gate LoggingAlphaOptions=true",
        "--vmodule[0]: \"a\" is not of the form file=LEVEL",
        "--kube-api-qps: must be a number such as 5 or 0.5, not fast",
        "--ipvs-exclude-cidrs[0]: \"10.0.0.0/33\" is not a prefix",
        "--kube-api-content-type: \"text/html\" is not a content type",
        "--healthz-port: must be a whole number from 0 to 65535, not 70000",
        "--v: a value is missing",
    ] {
        assert!(message.contains(part), "{part} is missing in:\n{message}");
    }
    assert_eq!(message.lines().count(), 23, "{message}");
}

#[test]
fn modes_are_never_exchanged_in_silence() {
    let message = given(&["--proxy-mode=ebpf"]).unwrap_err();
    assert!(
        message.contains("\"ebpf\" is not a proxy mode; use nftables, iptables, ipvs or userspace"),
        "{message}"
    );
    let message = given(&["--proxy-mode=ipvs", "--feature-gates=KubeProxyIPVS=false"]).unwrap_err();
    assert_eq!(message, "--proxy-mode: ipvs needs the feature gate KubeProxyIPVS, which is turned off");
    assert_eq!(options(&["--proxy-mode=ipvs"]).mode, Mode::Ipvs);
    assert_eq!(options(&[]).mode_because.as_deref(), Some("this kernel has it"));
    assert_eq!(options(&["--proxy-mode=nftables"]).mode_because, None);
}

#[test]
fn what_a_mode_does_not_do_is_told() {
    let warnings = |mode: &str| given(&["--service-counters", mode]).unwrap().warnings.join("\n");
    let wanted = "--service-counters has no effect in mode iptables: it counts in the modes nftables, ipvs and \
                  userspace";
    assert_eq!(warnings("--proxy-mode=iptables"), wanted);
    assert_eq!(warnings("--proxy-mode=nftables"), "");
    assert_eq!(warnings("--proxy-mode=ipvs"), "");
    assert_eq!(warnings("--proxy-mode=userspace"), "");
}

#[test]
fn gates_of_older_releases_cost_one_warning() {
    let gates = "--feature-gates=TopologyAwareHints=true,SidecarContainers=true,ContextualLogging=true";
    let warnings = given(&[gates]).unwrap().warnings;
    let wanted = "These feature gates no longer have an effect; remove them from --feature-gates: \
                  SidecarContainers, TopologyAwareHints";
    assert_eq!(warnings, [wanted]);
}

#[test]
fn sources() {
    let apiserver = |arguments: &[&str]| match options(arguments).source {
        Source::Apiserver(apiserver) => apiserver,
        Source::Manifests(path) => panic!("{arguments:?}: {path:?}"),
    };
    let in_cluster = apiserver(&[]);
    assert_eq!((in_cluster.kubeconfig, in_cluster.master), (None, None));
    assert_eq!((in_cluster.content_type, in_cluster.qps, in_cluster.burst), (ContentType::Protobuf, 5.0, 10));
    let outside =
        apiserver(&["--kubeconfig=/k", "--master=https://m", "--kube-api-content-type=application/json"]);
    assert_eq!(outside.kubeconfig.as_deref(), Some(Path::new("/k")));
    assert_eq!((outside.master.as_deref(), outside.content_type), (Some("https://m"), ContentType::Json));
    for other in ["--kubeconfig=/k", "--master=https://m"] {
        let message = given(&["--manifests=x", other]).unwrap_err();
        assert!(message.contains("--manifests: objects come from"), "{message}");
    }
}

/// As Kubernetes' own: the periods and --masquerade-all are for every mode but ipvs, the bit is not.
#[test]
fn nftables_reads_flags_named_after_iptables() {
    let flags = [
        "--iptables-sync-period=40s",
        "--iptables-min-sync-period=0",
        "--masquerade-all",
        "--iptables-masquerade-bit=7",
    ];
    for (mode, mark) in [("--proxy-mode=nftables", 1 << 14), ("--proxy-mode=", 1 << 7)] {
        let options = options(&[&flags[..], &[mode]].concat());
        assert_eq!(options.sync_period, Duration::from_secs(40));
        assert_eq!(options.min_sync_period, Duration::ZERO);
        assert!(options.settings.masquerade_all);
        assert_eq!(options.masquerade_mark, mark, "{mode}");
    }
    let idle = warnings(&[&flags[..], &["--proxy-mode=nftables"]].concat());
    assert_eq!(
        idle,
        "These settings have no effect in this build and mode (nftables): --iptables-masquerade-bit"
    );
    assert_eq!(warnings(&flags), "");
    let message = given(&["--iptables-sync-period=1s", "--iptables-min-sync-period=2s"]).unwrap_err();
    assert_eq!(message, "--iptables-min-sync-period: 2s is longer than --iptables-sync-period, 1s");
}

#[test]
fn probes_can_be_moved_and_turned_off() {
    let healthz = |arguments: &[&str]| options(arguments).healthz_bind_address.map(|a| a.to_string());
    for (arguments, wanted) in [
        (&[][..], Some("0.0.0.0:10256")),
        (&["--healthz-bind-address="], Some("0.0.0.0:10256")),
        (&["--healthz-bind-address=10.0.0.1"], Some("10.0.0.1:10256")),
        (&["--healthz-bind-address=10.0.0.1", "--healthz-port=1234"], Some("10.0.0.1:1234")),
        (&["--healthz-bind-address=[::1]:99", "--healthz-port=1234"], Some("[::1]:99")),
        (&["--healthz-port=0"], None),
    ] {
        assert_eq!(healthz(arguments).as_deref(), wanted, "{arguments:?}");
    }
    for (arguments, wanted) in [
        (&["--healthz-port=0"][..], "--healthz-port is deprecated; 0 turns the server off"),
        (
            &["--healthz-port=9999"],
            "--healthz-port has no effect, because --healthz-bind-address has port 10256; give it there",
        ),
        (
            &["--healthz-bind-address=10.0.0.1", "--healthz-port=1234"],
            "--healthz-port is deprecated; give the port in --healthz-bind-address",
        ),
    ] {
        assert_eq!(warnings(arguments), wanted, "{arguments:?}");
    }
}

#[test]
fn what_has_no_effect_is_named() {
    assert_eq!(warnings(&[]), "");
    let idle = warnings(&[
        "--conntrack-min=5",
        "--oom-score-adj=-999",
        "--ipvs-scheduler=rr",
        "--profiling",
        "--feature-gates=NativeHistograms=false,AllowServiceExternalIPs=false,ContextualLogging=false",
    ]);
    let wanted = "--ipvs-scheduler, --feature-gates ContextualLogging, --feature-gates NativeHistograms";
    assert_eq!(idle, format!("These settings have no effect in this build and mode (nftables): {wanted}"));
}

#[test]
fn external_ips_are_served_unless_the_gate_is_off() {
    let ignores = |arguments: &[&str]| options(arguments).settings.ignore_external_ips;
    assert!(!ignores(&[]));
    assert!(!ignores(&["--feature-gates=AllowServiceExternalIPs=true"]));
    assert!(ignores(&["--feature-gates=AllowServiceExternalIPs=false"]));
    let file = ConfigFile::with("featureGates: {AllowServiceExternalIPs: false}\n");
    assert!(ignores(&[&file.flag()]));
}

#[test]
fn services_are_counted_on_request_also_beside_a_file() {
    assert!(!options(&["--manifests=x"]).service_counters);
    let file = ConfigFile::with("mode: nftables\n");
    assert!(options(&[&file.flag(), "--service-counters"]).service_counters);
    assert_eq!(warnings(&[&file.flag(), "--service-counters"]), "");
}

#[test]
fn beside_a_file_few_flags_count() {
    let file = ConfigFile::with(
        "mode: nftables\nhostnameOverride: a\nlogging:\n  verbosity: 1\nfoo: 1\nclientConnection: {kubeconfig: /k}\n",
    );
    let arguments = [
        &file.flag(),
        "-v5",
        "--hostname-override= B ",
        "--masquerade-all",
        "--manifests=m",
        "--proxy-mode=ipvs",
        "--healthz-port=0",
        "--metrics-port=1",
    ];
    let parsed = given(&arguments).unwrap();
    assert_eq!(parsed.logging.verbosity.0, 5);
    assert!(parsed.warnings[0].ends_with("foo is not a field of KubeProxyConfiguration and has no effect"));
    assert_eq!(
        parsed.warnings[1],
        "Ignored because --config is set: --masquerade-all, --proxy-mode, --healthz-port, --metrics-port"
    );
    assert!(parsed.warnings[2].contains("because --manifests is set"), "{:?}", parsed.warnings);
    let options = options(&arguments);
    assert_eq!((options.node_name.as_str(), options.settings.masquerade_all), ("b", false));
    assert_eq!(options.source, Source::Manifests("m".into()));
    assert!(options.healthz_bind_address.is_some());
    assert_eq!(given(&[&file.flag()]).unwrap().logging.verbosity.0, 1);
}

#[test]
fn an_empty_name_leaves_that_of_the_file() {
    let file = ConfigFile::with("hostnameOverride: a\n");
    for empty in ["--hostname-override=", "--hostname-override= "] {
        assert_eq!(options(&[&file.flag(), empty]).node_name, "a", "{empty:?}");
    }
}

#[test]
fn errors_of_a_file_come_with_those_of_the_flags() {
    let file = ConfigFile::with("oomScoreAdj: 5000\nmode: ipvs\nfeatureGates: {KubeProxyIPVS: false}\n");
    let message = given(&[&file.flag(), "--nonsense", "--v=loud"]).unwrap_err();
    for part in [
        "--nonsense",
        "--v: must be a whole number",
        "oomScoreAdj: must be a whole number from -1000",
        ": mode: ipvs needs the feature gate",
    ] {
        assert!(message.contains(part), "{part} is missing in:\n{message}");
    }
    let message = given(&["--config=/nowhere/config.conf"]).unwrap_err();
    assert!(message.starts_with("--config: /nowhere/config.conf cannot be read: "), "{message}");
}

#[test]
fn a_file_that_never_ends_is_refused() {
    let message = given(&["--config=/dev/zero"]).unwrap_err();
    assert_eq!(message, "--config: /dev/zero cannot be read: it is not a regular file");
    let file = ConfigFile::with("mode: nftables\n#");
    let text = std::fs::read_to_string(&file.0).unwrap();
    let padded = |size: usize| {
        std::fs::write(&file.0, format!("{text}{}", " ".repeat(size - text.len()))).unwrap();
    };
    padded(1 << 20);
    assert!(given(&[&file.flag()]).is_ok());
    padded((1 << 20) + 1);
    let message = given(&[&file.flag()]).unwrap_err();
    assert!(message.ends_with(" cannot be read: it is larger than 1 MiB"), "{message}");
}

#[test]
fn orders() {
    let command = |arguments: &[&str]| given(arguments).unwrap().command;
    assert!(matches!(
        command(&["--cleanup", "--proxy-mode=iptables"]),
        Command::Cleanup { is_awaited: false }
    ));
    assert!(matches!(command(&["--cleanup-and-wait"]), Command::Cleanup { is_awaited: true }));
    assert!(matches!(command(&["--init-only"]), Command::InitOnly(_)));
    assert!(matches!(command(&["--init-only", "--proxy-mode=iptables"]), Command::InitOnly(_)));
    assert!(matches!(command(&["--init-only", "--proxy-mode=ipvs"]), Command::InitOnly(_)));
    assert!(given(&["--cleanup", "--nonsense"]).is_err());
    for cleanup in ["--cleanup", "--cleanup-and-wait"] {
        assert!(given(&["--init-only", cleanup]).unwrap_err().contains("cannot be combined"), "{cleanup}");
    }
    for help in ["--help", "-h"] {
        assert!(matches!(command(&[help, "--nonsense"]), Command::Print(text) if text == super::help()));
    }
    let Command::WriteConfig { path, yaml } = command(&["--write-config-to=/x", "--oom-score-adj=-5"]) else {
        panic!("not written");
    };
    assert_eq!(path, Path::new("/x"));
    assert!(yaml.contains("\noomScoreAdj: -5\n") && yaml.contains("\nmode: nftables\n"), "{yaml}");
}

#[test]
fn only_a_sound_configuration_is_written() {
    let written = |arguments: &[&str]| match given(&[&["--write-config-to=/x"], arguments].concat()) {
        Ok(Parsed { command: Command::WriteConfig { yaml, .. }, warnings, .. }) => Ok((yaml, warnings)),
        Ok(other) => panic!("{other:?}"),
        Err(message) => Err(message),
    };
    for (flag, problem) in [
        ("--iptables-min-sync-period=1h", "--iptables-min-sync-period: 1h0m0s is longer than"),
        ("--cluster-cidr=10.0.0.0/8,11.0.0.0/8", "--cluster-cidr: names more than one IPv4 prefix"),
        ("--detect-local-mode=BridgeInterface", "--pod-bridge-interface: must name one"),
    ] {
        let message = written(&[flag]).unwrap_err();
        assert!(message.starts_with(problem), "{message}");
    }
    let (yaml, _) = written(&["--proxy-mode=ipvs"]).unwrap();
    assert!(yaml.contains("\nmode: ipvs\n"), "{yaml}");
    let (yaml, warnings) = written(&["--healthz-port=0", "--metrics-port=0"]).unwrap();
    assert_eq!(yaml, written(&[]).unwrap().0);
    let wanted =
        ["healthz", "metrics"].map(|name| format!("--{name}-port is not written: no field stands for it"));
    assert_eq!(warnings, wanted);
}
