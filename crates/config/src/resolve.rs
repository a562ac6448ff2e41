//! From a completed [`Configuration`] to [`Options`]: what one setting asks of another, and of this build.

use std::path::PathBuf;

use model::{Family, LocalDetector, Settings};

use super::choice::{LocalMode, LogFormat};
use super::complete::Completed;
use super::configuration::Configuration;
use super::gates::{EXTERNAL_IPS, FLAGZ, LOGGING_ALPHA, LOGGING_BETA, STATUSZ};
use super::modes::{CommonSettings, check_gate, check_periods, on_loopback, settings_of_modes};
use super::origin::{Origin, Place};
use super::value::Span;
use crate::json::to_json;
use crate::{ApiserverOptions, ConntrackOptions, DetectLocal, NodeOptions, Options, PageOptions, Source};

/// What the agent runs with, and the configuration that it stands for: the next one is compared with it.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub options: Options,
    pub configuration: Configuration,
}

/// What only the command line can say, because Kubernetes' configuration has no field for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFlags {
    pub(crate) manifests: String,
    pub(crate) master: String,
    pub(crate) service_counters: bool,
}

/// Every problem is reported, not the first one.
pub(crate) fn resolve(completed: Completed, flags: &SourceFlags) -> Result<Resolved, Vec<String>> {
    let Completed { configuration, mode, origin } = completed;
    let settings = CommonSettings::of(&configuration, mode);
    let mut found = Found { origin: &origin, problems: Vec::new() };
    found.problems.extend(check_periods(&settings, mode, &origin));
    found.problems.extend(check_logging(&configuration, &origin));
    found.take("mode", check_gate(&configuration, mode));
    found.take("metricsBindAddress", check_listeners(&configuration, &origin));
    found.take("showHiddenMetricsForVersion", hidden_version(&configuration));
    let source = source(&configuration, flags, &origin);
    let source = source.map_err(|problem| found.problems.push(format!("--manifests: {problem}"))).ok();
    let is_node = !matches!(source, Some(Source::Manifests(_)));
    let node_name = found.take("hostnameOverride", node_name(&configuration.hostname_override, is_node));
    let detect_local = detect_local(&configuration, &mut found);
    let (Some(source), Some(node_name), Some(detect_local), true) =
        (source, node_name, detect_local, found.problems.is_empty())
    else {
        return Err(found.problems);
    };
    let options = Options {
        source,
        node_name,
        detect_local,
        nodeport_addresses: configuration.node_port_addresses.select(),
        nodeports_on_loopback: on_loopback(&configuration, mode),
        settings: Settings {
            masquerade_all: settings.masquerade_all,
            ignore_external_ips: !configuration.feature_gates.is_on(EXTERNAL_IPS),
        },
        mode,
        mode_because: origin.default_mode.as_ref().map(|default| default.why.clone()),
        masquerade_mark: settings.masquerade_mark,
        service_counters: flags.service_counters,
        sync_period: settings.sync_period,
        min_sync_period: settings.min_sync_period,
        of_mode: settings_of_modes(&configuration, mode),
        healthz_bind_address: configuration.healthz_bind_address.address(),
        metrics_bind_address: configuration.metrics_bind_address.address(),
        pages: pages(&configuration),
        feature_gates: configuration.feature_gates.clone(),
        logging: configuration.logging.clone(),
        node: node(&configuration),
        bind_address: Some(configuration.bind_address).filter(|ip| !ip.is_unspecified()),
        bind_address_hard_fail: configuration.bind_address_hard_fail,
        config_file: origin.config_file.clone(),
    };
    Ok(Resolved { options, configuration })
}

fn pages(configuration: &Configuration) -> PageOptions {
    PageOptions {
        configz: to_json(configuration),
        has_flagz: configuration.feature_gates.is_on(FLAGZ),
        has_statusz: configuration.feature_gates.is_on(STATUSZ),
        has_profiles: configuration.enable_profiling,
    }
}

fn node(Configuration { oom_score_adj, conntrack, .. }: &Configuration) -> NodeOptions {
    let timeout = |span: Span| Some(span.0).filter(|timeout| !timeout.is_zero());
    NodeOptions {
        oom_score_adj: oom_score_adj.0,
        conntrack: ConntrackOptions {
            max_per_core: conntrack.max_per_core.0.unsigned_abs(),
            min: conntrack.min.0.unsigned_abs(),
            tcp_established_timeout: timeout(conntrack.tcp_established_timeout),
            tcp_close_wait_timeout: timeout(conntrack.tcp_close_wait_timeout),
            udp_timeout: timeout(conntrack.udp_timeout),
            udp_stream_timeout: timeout(conntrack.udp_stream_timeout),
            tcp_be_liberal: conntrack.tcp_be_liberal,
        },
    }
}

struct Found<'a> {
    origin: &'a Origin,
    problems: Vec<String>,
}

impl Found<'_> {
    fn take<T>(&mut self, path: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.problems.push(format!("{}: {problem}", self.origin.name(path)))).ok()
    }
}

/// Upstream refuses these combinations too.
fn check_logging(configuration: &Configuration, origin: &Origin) -> Vec<String> {
    let logging = &configuration.logging;
    let mut problems = Vec::new();
    if logging.format == LogFormat::Json && !configuration.feature_gates.is_on(LOGGING_BETA) {
        let name = origin.name("logging.format");
        problems.push(format!("{name}: json needs the feature gate LoggingBetaOptions, which is turned off"));
    }
    if logging.format == LogFormat::Json && !logging.vmodule.0.is_empty() {
        let name = origin.name("logging.vmodule");
        problems.push(format!("{name}: levels per file need the format text"));
    }
    if configuration.feature_gates.is_on(LOGGING_ALPHA) {
        return problems;
    }
    for (format, stream) in [("text", &logging.text), ("json", &logging.json)] {
        for (field, is_used) in
            [("splitStream", stream.split), ("infoBufferSize", stream.info_buffer_size.bytes > 0)]
        {
            if is_used {
                let name = origin.name(&format!("logging.options.{format}.{field}"));
                problems.push(format!("{name}: needs the feature gate LoggingAlphaOptions=true"));
            }
        }
    }
    problems
}

/// Two servers cannot have one port, unless their addresses differ.
fn check_listeners(configuration: &Configuration, origin: &Origin) -> Result<(), String> {
    let (Some(metrics), Some(healthz)) =
        (configuration.metrics_bind_address.address(), configuration.healthz_bind_address.address())
    else {
        return Ok(());
    };
    // An address of all is one of both families where it can be.
    let is_shared =
        metrics.ip() == healthz.ip() || metrics.ip().is_unspecified() || healthz.ip().is_unspecified();
    if metrics.port() != healthz.port() || !is_shared {
        return Ok(());
    }
    Err(format!(
        "{metrics} is also the address of {} ({healthz}); choose another port",
        origin.name("healthzBindAddress")
    ))
}

/// Metrics that are hidden come back for one release: what counts is the one before.
fn hidden_version(configuration: &Configuration) -> Result<(), String> {
    match configuration.show_hidden_metrics_for_version.as_str() {
        "" | "1.36" => Ok(()),
        other => Err(format!("must be empty or 1.36, not {other:?}")),
    }
}

/// Manifests are named on the command line only, and so outdo the kubeconfig of a file.
fn source(configuration: &Configuration, flags: &SourceFlags, origin: &Origin) -> Result<Source, String> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let client = &configuration.client_connection;
    let (kubeconfig, master) = (given(&client.kubeconfig).map(PathBuf::from), given(&flags.master));
    match given(&flags.manifests) {
        None => Ok(Source::Apiserver(ApiserverOptions {
            kubeconfig,
            master,
            content_type: client.content_type,
            qps: client.qps.0,
            burst: client.burst.0.unsigned_abs(),
        })),
        Some(_) if master.is_some() || (kubeconfig.is_some() && origin.place == Place::Flags) => Err(
            "objects come from manifests or from the apiserver; drop this flag, or --kubeconfig and --master"
                .into(),
        ),
        Some(path) => Ok(Source::Manifests(path.into())),
    }
}

/// Without a cluster the host may be called anything.
fn node_name(given: &str, is_node: bool) -> Result<String, String> {
    let name = match given {
        "" => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_err(|error| format!("failed to read the host name ({error}); set one"))?,
        given => given.to_owned(),
    };
    match name.trim().to_lowercase() {
        name if name.is_empty() => Err("the name of this node is empty; set one".into()),
        name if !is_subdomain(&name) && (is_node || !given.is_empty()) => Err(format!(
            "{name:?} cannot be the name of a Node: that has letters, digits, '-' and '.', begins and ends with a \
             letter or digit, and has at most 253 characters; give the name that kubectl get nodes shows"
        )),
        name => Ok(name),
    }
}

/// RFC 1123, as the apiserver checks names of Nodes.
fn is_subdomain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_plain)
            && label.ends_with(is_plain)
            && label.chars().all(|c| is_plain(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn detect_local(configuration: &Configuration, found: &mut Found<'_>) -> Option<DetectLocal> {
    let names = &configuration.detect_local;
    let detector = match configuration.detect_local_mode {
        LocalMode::NodeCidr => return Some(DetectLocal::NodeCidr),
        LocalMode::ClusterCidr => found.take("clusterCIDR", cluster_cidrs(configuration)),
        LocalMode::BridgeInterface => {
            let path = "detectLocal.bridgeInterface";
            found.take(path, interface(&names.bridge_interface, "BridgeInterface")).map(LocalDetector::Bridge)
        }
        LocalMode::InterfaceNamePrefix => {
            let path = "detectLocal.interfaceNamePrefix";
            found
                .take(path, interface(&names.interface_name_prefix, "InterfaceNamePrefix"))
                .map(LocalDetector::InterfacePrefix)
        }
    };
    detector.map(DetectLocal::Fixed)
}

fn cluster_cidrs(configuration: &Configuration) -> Result<LocalDetector, String> {
    let nets: Vec<_> = configuration.cluster_cidr.0.iter().map(|net| net.trunc()).collect();
    for family in Family::BOTH {
        if nets.iter().filter(|net| Family::of_net(net) == family).count() > 1 {
            return Err(format!("names more than one {family} prefix; give at most one per family"));
        }
    }
    if nets.is_empty() { Ok(LocalDetector::None) } else { Ok(LocalDetector::Cidrs(nets)) }
}

fn interface(name: &str, mode: &str) -> Result<String, String> {
    match name.len() {
        0 => Err(format!("must name one, because local traffic is detected by {mode}")),
        1..=15 => Ok(name.to_owned()),
        _ => Err(format!("{name:?} is longer than the 15 bytes of an interface name")),
    }
}
