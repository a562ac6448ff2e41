//! What upstream's validation (v1.37) refuses and takes, function by function, and what is said here.

use super::*;
use complete::complete;
use file::{Loaded, read};
use origin::{Origin, Place};
use resolve::{SourceFlags, resolve};

/// Every problem with a file, in the order in which it is reported.
fn problems(body: &str) -> String {
    let head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nhostnameOverride: node-1\n";
    let Loaded { configuration, given, mut problems, .. } = read(&format!("{head}{body}")).unwrap();
    let completed = complete(configuration, Origin::new(Place::File, given), DefaultMode::nftables);
    problems.extend(resolve(completed, &SourceFlags::default()).err().into_iter().flatten());
    problems.join("\n")
}

/// The function, what it refuses, and how that is called here.
const REFUSED: &[(&str, &str, &str)] = &[
    ("Validate", "featureGates: {Fancy: true}", "featureGates: \"Fancy\" is not a feature gate"),
    ("Validate", "configSyncPeriod: -1s", "configSyncPeriod: \"-1s\" is negative"),
    ("Validate", "iptables: {syncPeriod: -1s}", "iptables.syncPeriod: \"-1s\" is negative"),
    ("Validate", "iptables: {minSyncPeriod: -1s}", "iptables.minSyncPeriod: \"-1s\" is negative"),
    (
        "Validate",
        "iptables: {syncPeriod: 1s, minSyncPeriod: 5s}",
        "iptables.minSyncPeriod: 5s is longer than",
    ),
    ("Validate", "bindAddress: 10.10.12.11:2000", "bindAddress: \"10.10.12.11:2000\" is not an IP address"),
    ("validateKubeProxyIPTablesConfiguration", "iptables: {masqueradeBit: -10}", "from 0 to 31, not -10"),
    ("validateKubeProxyIPTablesConfiguration", "iptables: {masqueradeBit: 32}", "from 0 to 31, not 32"),
    ("validateKubeProxyNFTablesConfiguration", "nftables: {masqueradeBit: 32}", "from 0 to 31, not 32"),
    ("validateIPVSTimeout", "mode: ipvs\nipvs: {tcpTimeout: -1s}", "ipvs.tcpTimeout: \"-1s\" is negative"),
    ("validateIPVSTimeout", "mode: ipvs\nipvs: {tcpFinTimeout: -1s}", "ipvs.tcpFinTimeout: \"-1s\""),
    ("validateIPVSTimeout", "mode: ipvs\nipvs: {udpTimeout: -1s}", "ipvs.udpTimeout: \"-1s\""),
    (
        "validateIPVSExcludeCIDRs",
        "mode: ipvs\nipvs: {excludeCIDRs: [10.0.0.0]}",
        "ipvs.excludeCIDRs[0]: \"10.0.0.0\" is not a prefix",
    ),
    ("validateKubeProxyLinuxConfiguration", "oomScoreAdj: -1001", "from -1000 to 1000, not -1001"),
    (
        "validateKubeProxyConntrackConfiguration",
        "conntrack: {maxPerCore: -1}",
        "conntrack.maxPerCore: must be",
    ),
    ("validateKubeProxyConntrackConfiguration", "conntrack: {min: -1}", "conntrack.min: must be"),
    ("validateKubeProxyConntrackConfiguration", "conntrack: {tcpEstablishedTimeout: -5s}", "is negative"),
    ("validateKubeProxyConntrackConfiguration", "conntrack: {tcpCloseWaitTimeout: -5s}", "is negative"),
    ("validateKubeProxyConntrackConfiguration", "conntrack: {udpTimeout: -5s}", "is negative"),
    ("validateKubeProxyConntrackConfiguration", "conntrack: {udpStreamTimeout: -5s}", "is negative"),
    (
        "validateProxyModeLinux",
        "mode: non-existing",
        "mode: \"non-existing\" is not a proxy mode; use nftables",
    ),
    (
        "validateProxyModeLinux",
        "mode: ipvs\nfeatureGates: {KubeProxyIPVS: false}",
        "mode: ipvs needs the feature gate",
    ),
    ("validateDetectLocalMode", "detectLocalMode: Guess", "detectLocalMode: \"Guess\" is not a way"),
    ("validateClientConnectionConfiguration", "clientConnection: {burst: -5}", "0 or more, not -5"),
    ("validateHostPort", "healthzBindAddress: 1.2.3.4::5678", "healthzBindAddress: \"1.2.3.4::5678\" is not"),
    ("validateHostPort", "metricsBindAddress: 127.0.0.1:0", "metricsBindAddress: \"127.0.0.1:0\" is not"),
    (
        "validateHostPort",
        "metricsBindAddress: example.com:80",
        "metricsBindAddress: \"example.com:80\" is not",
    ),
    (
        "validateKubeProxyNodePortAddress",
        "nodePortAddresses: [here]",
        "nodePortAddresses[0]: \"here\" is not",
    ),
    (
        "validateKubeProxyNodePortAddress",
        "nodePortAddresses: [1.2.3.4]",
        "nodePortAddresses[0]: \"1.2.3.4\" is not",
    ),
    (
        "validateKubeProxyNodePortAddress",
        "nodePortAddresses: [all, all]",
        "nodePortAddresses[1]: \"all\" is named",
    ),
    ("validateShowHiddenMetricsVersion", "showHiddenMetricsForVersion: '1.2'", "must be empty or 1.36"),
    ("validateInterface", "detectLocalMode: BridgeInterface", "detectLocal.bridgeInterface: must name one"),
    (
        "validateInterface",
        "detectLocalMode: InterfaceNamePrefix",
        "detectLocal.interfaceNamePrefix: must name one",
    ),
    ("validateDualStackCIDRStrings", "clusterCIDR: '10.0.0.0/8,11.0.0.0/8'", "more than one IPv4 prefix"),
    (
        "validateDualStackCIDRStrings",
        "clusterCIDR: 'fd00::/8,fc00::/8,10.0.0.0/8'",
        "more than one IPv6 prefix",
    ),
    (
        "validateDualStackCIDRStrings",
        "clusterCIDR: 10.0.0.0/33",
        "clusterCIDR[0]: \"10.0.0.0/33\" is not a prefix",
    ),
    ("logsapi.Validate", "logging: {flushFrequency: -5s}", "logging.flushFrequency: \"-5s\" is negative"),
    ("logsapi.Validate", "logging: {format: xml}", "logging.format: \"xml\" is not a log format"),
    (
        "logsapi.Validate",
        "logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}",
        "logging.format: json needs the feature gate LoggingBetaOptions",
    ),
    ("logsapi.Validate", "logging: {verbosity: 4294967295}", "logging.verbosity: must be a whole number"),
    (
        "logsapi.Validate",
        "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
        "logging.vmodule: levels per file need the format text",
    ),
    (
        "logsapi.Validate",
        "logging: {vmodule: [{filePattern: '', verbosity: 1}]}",
        "logging.vmodule[0]: \"\" is not the name of a source",
    ),
    (
        "logsapi.Validate",
        "logging: {vmodule: [{filePattern: 'a,b', verbosity: 1}]}",
        "is not the name of a source",
    ),
    ("validateTextOptions", "logging: {options: {text: {splitStream: true}}}", "needs the feature gate"),
    ("validateTextOptions", "logging: {options: {text: {infoBufferSize: 1k}}}", "needs the feature gate"),
    ("validateJSONOptions", "logging: {options: {json: {splitStream: true}}}", "needs the feature gate"),
    ("validateJSONOptions", "logging: {options: {json: {infoBufferSize: 1k}}}", "needs the feature gate"),
];

/// What upstream takes.
const TAKEN: &[&str] = &[
    "",
    "mode: iptables",
    "mode: ipvs",
    "mode: nftables",
    "oomScoreAdj: -1000\niptables: {masqueradeBit: 0}\nnftables: {masqueradeBit: 31}",
    "configSyncPeriod: 0s\niptables: {syncPeriod: 0s}",
    "iptables: {minSyncPeriod: 30s}",
    "bindAddress: '::'\nhealthzBindAddress: '[fd00:192:168:59::103]:10256'",
    "healthzBindAddress: ''",
    "nodePortAddresses: [primary, localhost, all, 10.20.0.0/16, 'fd00::/64']",
    "nodePortAddresses: [10.20.0.0/16, 10.20.0.0/16]",
    "clusterCIDR: '192.168.59.0/24,fd00:192:168::/64'",
    "clusterCIDR: 'fd00:192:168::/64,192.168.59.0/24'",
    "detectLocalMode: NodeCIDR\nclusterCIDR: '10.0.0.0/8,11.0.0.0/8'",
    "detectLocalMode: ''",
    "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: avz}",
    "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: vethabcde}",
    "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}",
    "clientConnection: {qps: -1, burst: 0}",
    "showHiddenMetricsForVersion: '1.36'",
    "logging: {format: json, verbosity: 2147483647}",
    "logging: {options: {json: {splitStream: true, infoBufferSize: 1Ki}}}\nfeatureGates: {LoggingAlphaOptions: true}",
    "logging: {flushFrequency: 5000000000}",
];

#[test]
fn what_upstream_refuses_is_refused_and_named() {
    for (function, body, wanted) in REFUSED {
        let found = problems(body);
        assert!(found.contains(wanted), "{function}: {body}: {found:?}");
        assert_eq!(found.lines().count(), 1, "{function}: {body}: {found}");
    }
}

#[test]
fn what_upstream_takes_is_taken() {
    for body in TAKEN {
        assert_eq!(problems(body), "", "{body}");
    }
}

#[test]
fn every_wrong_item_of_a_list_is_named_by_its_index() {
    for (body, wanted) in [
        (
            "nodePortAddresses: [banana, 10.0.0.0/8, 7, primary, cherry]",
            &["nodePortAddresses[2]: must be text, not 7"][..],
        ),
        (
            "nodePortAddresses: [banana, 10.0.0.0/8, primary, cherry]",
            &["nodePortAddresses[0]: \"banana\"", "nodePortAddresses[3]: \"cherry\""],
        ),
        (
            "ipvs: {excludeCIDRs: [10.0.0.0/8, banana, 'fd00::/129']}",
            &["ipvs.excludeCIDRs[1]: \"banana\"", "ipvs.excludeCIDRs[2]: \"fd00::/129\""],
        ),
        ("clusterCIDR: '10.0.0.0/8,banana'", &["clusterCIDR[1]: \"banana\" is not a prefix"]),
        (
            "logging: {vmodule: [{filePattern: a, verbosity: 1}, {filePattern: b, verbosity: -1}, 3]}",
            &["logging.vmodule[1]: the level of b must be", "logging.vmodule[2]: must be a mapping"],
        ),
    ] {
        let found = problems(body);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), wanted.len(), "{body}: {found}");
        for (line, wanted) in lines.iter().zip(wanted) {
            assert!(line.starts_with(wanted), "{body}: {found}");
        }
    }
}
