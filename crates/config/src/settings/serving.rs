//! Probes, metrics and profiles.

use super::OnChange::{Live, Rebind};
use super::{Group, Setting, setting};

pub(super) const ALL: &[Setting] = &[
    setting("healthzBindAddress", Rebind, |c| &mut c.healthz_bind_address)
        .zero_is_unset()
        .flag(Group::Serving, "healthz-bind-address", "IP:PORT")
        .help("Where /healthz, /livez and /readyz are served; --healthz-port=0 disables them."),
    setting("metricsBindAddress", Rebind, |c| &mut c.metrics_bind_address)
        .zero_is_unset()
        .flag(Group::Serving, "metrics-bind-address", "IP:PORT")
        .help("Where metrics are served; --metrics-port=0 disables them."),
    setting("bindAddressHardFail", Live, |c| &mut c.bind_address_hard_fail)
        .flag(Group::Serving, "bind-address-hard-fail", "")
        .help("Exit if an address cannot be bound, instead of retrying every 5 s."),
    setting("enableProfiling", Live, |c| &mut c.enable_profiling)
        .flag(Group::Serving, "profiling", "")
        .help("Serve profiles of processor time and memory on the metrics address, below /debug/pprof/."),
    // None is hidden, so that all are shown.
    setting("showHiddenMetricsForVersion", Live, |c| &mut c.show_hidden_metrics_for_version)
        .flag(Group::Serving, "show-hidden-metrics-for-version", "MAJOR.MINOR")
        .help("Show metrics that were hidden in the release after this version."),
];
