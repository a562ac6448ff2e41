mod modes;

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use complete::{Completed, complete, ineffective};
use file::{Loaded, read};
use model::{LocalDetector, NodePortAddresses};
use origin::{Origin, Place};
use resolve::{SourceFlags, resolve};
use yaml::to_yaml;

const KUBEADM: &str = include_str!("examples/kubeadm.yaml");
const KIND: &str = include_str!("examples/kind.yaml");
const FULL: &str = include_str!("examples/full.yaml");

fn with(body: &str) -> Loaded {
    read(&format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{body}"))
        .unwrap()
}

fn load(text: &str) -> Configuration {
    clean(read(text).unwrap()).0
}

fn clean(loaded: Loaded) -> (Configuration, Origin) {
    assert!(loaded.warnings.is_empty() && loaded.problems.is_empty(), "{loaded:?}");
    (loaded.configuration, Origin::new(Place::File, loaded.given))
}

fn completed(loaded: Loaded) -> Completed {
    let (configuration, origin) = clean(loaded);
    complete(configuration, origin, DefaultMode::nftables)
}

fn idle(loaded: Loaded) -> Vec<String> {
    ineffective(&completed(loaded))
}

fn options(text: &str) -> Options {
    resolve(completed(read(text).unwrap()), &SourceFlags::default()).unwrap().options
}

fn keys(prefix: &str, node: &Node, found: &mut Vec<String>) {
    match node {
        Node::Map(fields) => {
            fields.iter().for_each(|(name, node)| keys(&format!("{prefix}.{name}"), node, found));
        }
        _ => found.push(prefix.to_owned()),
    }
}

fn keys_of(yaml: &str) -> Vec<String> {
    let mut found = Vec::new();
    keys("", &serde_saphyr::from_str(yaml).unwrap(), &mut found);
    found
}

#[test]
fn kubeadm_means_the_defaults() {
    let mut configuration = load(KUBEADM);
    configuration.client_connection.kubeconfig.clear();
    configuration.cluster_cidr.0.clear();
    assert_eq!(configuration, Configuration::default());
    let options = options(KUBEADM);
    let Source::Apiserver(apiserver) = options.source else { panic!("{:?}", options.source) };
    assert_eq!(apiserver.kubeconfig.unwrap().to_str(), Some("/var/lib/kube-proxy/kubeconfig.conf"));
    assert_eq!((apiserver.content_type, apiserver.qps, apiserver.burst), (ContentType::Protobuf, 5.0, 10));
    assert!(options.mode_because.is_some());
    assert_eq!(options.nodeport_addresses, NodePortAddresses::Primary);
    let pods = vec!["10.244.0.0/16".parse().unwrap()];
    assert_eq!(options.detect_local, DetectLocal::Fixed(LocalDetector::Cidrs(pods)));
    assert_eq!(idle(read(KUBEADM).unwrap()), Vec::<String>::new());
}

#[test]
fn kind_of_ipv6() {
    let options = options(KIND);
    assert_eq!(options.mode_because, None);
    assert_eq!(options.healthz_bind_address.unwrap().to_string(), "[::]:10256");
    assert_eq!(options.metrics_bind_address.unwrap().to_string(), "[::1]:10249");
    assert_eq!(idle(read(KIND).unwrap()), Vec::<String>::new());
}

#[test]
fn only_what_was_given_is_called_idle() {
    let idle = |body: &str| idle(with(body)).join(", ");
    assert_eq!(idle("bindAddress: '::'\n"), "");
    assert_eq!(idle("bindAddress: 192.0.2.1\n"), "");
    assert_eq!(idle("metricsBindAddress: '[::1]:10249'\n"), "");
    assert_eq!(idle("oomScoreAdj: -999\nconntrack: {min: 0}\n"), "");
}

/// Every key is in the file, every value differs from its default, and nothing is lost on the way.
#[test]
fn a_full_file_comes_back_as_it_was() {
    let configuration = load(FULL);
    assert_eq!(to_yaml(&configuration), FULL);
    for setting in settings::all() {
        let value = setting.value(&mut configuration.clone()).show();
        let may_be_default = ["logging.format"];
        assert!(value != setting.default() || may_be_default.contains(&setting.path), "{}", setting.path);
    }
    let options = options(FULL);
    assert_eq!(
        (options.sync_period, options.min_sync_period),
        (Duration::from_secs(20), Duration::from_millis(250))
    );
    assert_eq!((options.masquerade_mark, options.settings.masquerade_all), (1 << 11, true));
    assert_eq!(options.detect_local, DetectLocal::Fixed(LocalDetector::InterfacePrefix("veth".into())));
    assert!(options.bind_address_hard_fail);
    assert_eq!(options.node_name, "node-1");
}

#[test]
fn json_is_read_too() {
    let text = r#"{"apiVersion":"kubeproxy.config.k8s.io/v1alpha1","kind":"KubeProxyConfiguration","oomScoreAdj":-7}"#;
    assert_eq!(load(text).oom_score_adj, Whole(-7));
}

/// The keys that Kubernetes' own kube-proxy v1.37 writes are those of kubeadm's ConfigMap and `logging.format`.
#[test]
fn the_written_defaults_have_the_usual_keys() {
    let yaml = to_yaml(&Configuration::default());
    let mut wanted = keys_of(KUBEADM);
    wanted.push(".logging.format".into());
    wanted.sort();
    let mut written = keys_of(&yaml);
    written.sort();
    assert_eq!(written, wanted);
    assert_eq!(load(&yaml), Configuration::default());
    let first: Vec<&str> = yaml.lines().take(3).collect();
    let wanted = [
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1",
        "bindAddress: 0.0.0.0",
        "bindAddressHardFail: false",
    ];
    assert_eq!(first, wanted);
}

#[test]
fn texts_are_quoted_where_yaml_would_read_something_else() {
    for text in [
        "",
        "1.36",
        "null",
        "Yes",
        "0x1F",
        "1e3",
        "- a",
        "a: b",
        "a #b",
        "::1",
        "\"q\" \\ \n",
        "~",
        "12:30",
        "node-1",
        "/etc/x.conf",
        "30000-32000",
        "é",
        "a:",
        "[::]:1",
        "2K",
        "nan",
        ".5",
        "0b1",
        "010",
        "10:20:30",
    ] {
        let configuration = Configuration {
            hostname_override: text.to_owned(),
            port_range: text.to_owned(),
            ..Configuration::default()
        };
        assert_eq!(load(&to_yaml(&configuration)), configuration, "{text:?}");
    }
}

#[test]
fn unknown_and_repeated_fields_are_a_warning() {
    let loaded = with(
        "iptables:\n  masqueradeBits: 3\nnew: {a: 1}\noomScoreAdj: 1\noomScoreAdj: 2\nipvs: null\niptable: {}\n\
         conntrak: {min: 1}\n",
    );
    assert_eq!(loaded.configuration.oom_score_adj, Whole(2));
    let warnings = loaded.warnings.join("\n");
    for part in [
        "iptables.masqueradeBits is not a field of KubeProxyConfiguration and has no effect",
        "iptable is not a field of KubeProxyConfiguration and has no effect; did you mean iptables?",
        "conntrak is not a field of KubeProxyConfiguration and has no effect; did you mean conntrack?",
        "new is not a field",
        "oomScoreAdj is set again in line 7; the last value is used",
    ] {
        assert!(warnings.contains(part), "{part} is missing in:\n{warnings}");
    }
    assert_eq!(loaded.warnings.len(), 5, "{warnings}");
}

#[test]
fn every_wrong_field_is_named_with_what_is_right() {
    let problems = with(
        "oomScoreAdj: 1001\nconntrack:\n  min: many\n  maxPerCore: \"5\"\n  tcpEstablishedTimeout: 5\n  udpTimeout: -3s\n\
         iptables: 5\nbindAddress: here\nhealthzBindAddress: 0.0.0.0:99999\nnodePortAddresses: primary\n\
         ipvs:\n  excludeCIDRs: [1]\n  strictARP: \"true\"\nhostnameOverride: 7\nfeatureGates:\n  Fancy: true\n  NFTablesNetlink: 3\n\
         mode: kernelspace\ndetectLocalMode: None\nlogging:\n  flushFrequency: -1\n  vmodule: [a=1]\n  format: xml\n\
         nftables:\n  masqueradeBit: 3.5\nclientConnection:\n  burst: -1\n\
         configSyncPeriod: true\n",
    ).problems;
    let text = problems.join("\n");
    for part in [
        "oomScoreAdj: must be a whole number from -1000 to 1000, not 1001",
        "conntrack.min: must be a number without quotes, not \"many\"",
        "conntrack.maxPerCore: must be a number without quotes, not \"5\"",
        "conntrack.tcpEstablishedTimeout: must be a duration such as 30s, not 5",
        "configSyncPeriod: must be a duration such as 30s, not true",
        "conntrack.udpTimeout: \"-3s\" is negative",
        "iptables: must be a mapping, not 5",
        "bindAddress: \"here\" is not an IP address",
        "healthzBindAddress: \"0.0.0.0:99999\" is not an address such as 0.0.0.0:10256",
        "nodePortAddresses: must be a list, not \"primary\"",
        "ipvs.excludeCIDRs[0]: must be text, not 1",
        "ipvs.strictARP: must be true or false, not \"true\"",
        "hostnameOverride: must be text, not 7",
        "featureGates: \"Fancy\" is not a feature gate of Kubernetes 1.37",
        "NFTablesNetlink must be true or false, not 3",
        "mode: \"kernelspace\" is not a proxy mode; use nftables, iptables, ipvs or userspace",
        "detectLocalMode: \"None\" is not a way to detect local traffic",
        "logging.flushFrequency: must be a duration such as 5s, not -1",
        "logging.vmodule[0]: must be a mapping with filePattern and verbosity",
        "logging.format: \"xml\" is not a log format; use text or json",
        "nftables.masqueradeBit: must be a whole number from 0 to 31, not 3.5",
        "clientConnection.burst: must be a whole number, 0 or more, not -1",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert_eq!(problems.len(), 21, "{text}");
    let numbers = with("mode: 24\nlogging: {format: true}\n").problems;
    assert_eq!(
        numbers,
        [
            "mode: must be nftables, iptables, ipvs or userspace, not 24",
            "logging.format: must be text or json, not true"
        ]
    );
}

#[test]
fn other_documents_are_refused() {
    for (text, words) in [
        ("", "is empty; expected a KubeProxyConfiguration"),
        ("a: 1\n---\nb: 1\n", "contains several documents; keep only the KubeProxyConfiguration"),
        ("- a", "is a list; expected a KubeProxyConfiguration"),
        (
            "kind: KubeProxyConfiguration",
            "apiVersion is missing; it must be kubeproxy.config.k8s.io/v1alpha1",
        ),
        (
            "apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration",
            "apiVersion must be kubeproxy.config.k8s.io/v1alpha1, not \"kubeproxy.config.k8s.io/v1\"",
        ),
        (
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: Config",
            "kind must be KubeProxyConfiguration, not \"Config\"",
        ),
        ("a: [", "cannot be read as YAML or JSON"),
    ] {
        let problem = read(text).unwrap_err();
        assert!(problem.contains(words) && !problem.contains('\n'), "{problem}");
    }
}

#[test]
fn fields_are_checked_against_each_other() {
    let problems =
        |body: &str| resolve(completed(with(body)), &SourceFlags::default()).unwrap_err().join("\n");
    for (body, wanted) in [
        (
            "mode: nftables\nnftables: {syncPeriod: 1s, minSyncPeriod: 2s}",
            "nftables.minSyncPeriod: 2s is longer than nftables.syncPeriod, 1s",
        ),
        (
            "iptables: {syncPeriod: 1s}\nnftables: {minSyncPeriod: 2s}",
            "nftables.minSyncPeriod: 2s is longer than iptables.syncPeriod, 1s",
        ),
        (
            "iptables: {minSyncPeriod: 1m}",
            "iptables.minSyncPeriod: 1m0s is longer than nftables.syncPeriod, 30s",
        ),
        (
            "mode: ipvs\nipvs: {minSyncPeriod: 1m}",
            "ipvs.minSyncPeriod: 1m0s is longer than ipvs.syncPeriod, 30s",
        ),
        ("hostnameOverride: ' '", "hostnameOverride: the name of this node is empty; set one"),
        (
            "detectLocalMode: BridgeInterface",
            "detectLocal.bridgeInterface: must name one, because local traffic is detected by BridgeInterface",
        ),
        (
            "clusterCIDR: 'fd00::/8,fc00::/8'",
            "clusterCIDR: names more than one IPv6 prefix; give at most one per family",
        ),
        (
            "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
            "logging.vmodule: levels per file need the format text",
        ),
        (
            "logging: {options: {json: {infoBufferSize: 1k}}}",
            "logging.options.json.infoBufferSize: needs the feature gate LoggingAlphaOptions=true",
        ),
        (
            "showHiddenMetricsForVersion: '1.35'",
            "showHiddenMetricsForVersion: must be empty or 1.36, not \"1.35\"",
        ),
    ] {
        assert_eq!(problems(body), wanted);
    }
}

/// As in kubeadm's ConfigMap, of which an operator changed one line.
#[test]
fn a_zero_that_was_only_filled_in_does_not_count() {
    let edited = KUBEADM.replacen("masqueradeAll: false", "masqueradeAll: true", 1);
    let (before, after) = edited.split_once("masqueradeAll: true").unwrap();
    assert!(
        before.contains("iptables:") && after.contains("nftables:") && after.contains("masqueradeAll: false")
    );
    assert!(options(&edited).settings.masquerade_all);
}

#[test]
fn settings_are_defined_once() {
    let mut paths = BTreeMap::new();
    let mut flags = BTreeMap::new();
    for setting in settings::all() {
        *paths.entry(setting.path).or_insert(0) += 1;
        if let Some(usage) = setting.flag {
            *flags.entry(usage.name).or_insert(0) += 1;
        }
    }
    assert!(paths.len() >= 60, "{}", paths.len());
    assert!(paths.values().chain(flags.values()).all(|times| *times == 1), "{paths:?} {flags:?}");
}

/// The table in the documentation is this table. `UPDATE_GOLDEN=1` writes it.
#[test]
fn the_documentation_lists_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let head = "| field | flag | default | effect | change |\n| --- | --- | --- | --- | --- |\n";
    let (before, behind) = text.split_once(head).unwrap();
    let end = behind.find("\n\n").map_or(behind.len(), |end| end + 1);
    let (written, after) = behind.split_at(end);
    let wanted = documented();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, format!("{before}{head}{wanted}{after}")).unwrap();
    } else {
        assert_eq!(written, wanted, "run with UPDATE_GOLDEN=1 and read the difference");
    }
}

fn documented() -> String {
    let mut all: Vec<_> = settings::all().collect();
    all.sort_by_key(|setting| setting.path);
    let row = |setting: &&settings::Setting| {
        let flag = setting.flag.map(|usage| format!("`--{}`", usage.name)).unwrap_or_default();
        let default = match setting.default() {
            node if node.is_zero() && !matches!(node, Node::Bool(_) | Node::Number(_)) => String::new(),
            node => format!("`{}`", node.describe().trim_matches('"')),
        };
        let effect = match setting.effect {
            _ if setting.path == "featureGates" => {
                let effective = gates::OF_A_PROXY.iter().filter(|gate| gate.has_effect);
                let names: Vec<String> = effective.map(|gate| format!("`{}`", gate.name)).collect();
                format!("only {}", names.join(", "))
            }
            settings::Effect::Here => "yes".to_owned(),
            _ if has_counterpart(setting.path) => "yes, see [Modes](#modes)".to_owned(),
            settings::Effect::NotYet => "not yet".to_owned(),
            settings::Effect::Only(modes) => {
                format!("mode {}", modes.iter().map(|mode| mode.word()).collect::<Vec<_>>().join(", "))
            }
            settings::Effect::Never => "none".to_owned(),
        };
        let change = match setting.effect {
            settings::Effect::NotYet | settings::Effect::Never => "",
            settings::Effect::Here | settings::Effect::Only(_) => setting.on_change.word(),
        };
        format!("| `{}` | {flag} | {default} | {effect} | {change} |\n", setting.path)
    };
    all.iter().map(row).collect()
}

/// What is named after iptables serves nftables too, where it has a counterpart there.
fn has_counterpart(path: &str) -> bool {
    path.strip_prefix("iptables.").is_some_and(|field| {
        let counterpart = format!("nftables.{field}");
        settings::all().any(|other| other.path == counterpart)
    })
}
