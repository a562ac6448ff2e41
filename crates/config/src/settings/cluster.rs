//! The apiserver, and who this node is.

use super::OnChange::{Live, Reconnect, Rewrite};
use super::{Effect, Group, Setting, setting};

pub(super) const ALL: &[Setting] = &[
    setting("clientConnection.kubeconfig", Reconnect, |c| &mut c.client_connection.kubeconfig)
        .flag(Group::Source, "kubeconfig", "FILE")
        .help(
            "The kubeconfig for the apiserver. Without it and --master, the pod's service account is used.",
        ),
    setting("clientConnection.acceptContentTypes", Live, |c| &mut c.client_connection.accept_content_types)
        .effect(Effect::NotYet),
    setting("clientConnection.contentType", Reconnect, |c| &mut c.client_connection.content_type)
        .zero_is_unset()
        .flag(Group::Source, "kube-api-content-type", "TYPE")
        .help(
            "Content type of requests to the apiserver: application/vnd.kubernetes.protobuf or \
             application/json.",
        ),
    setting("clientConnection.qps", Reconnect, |c| &mut c.client_connection.qps)
        .zero_is_unset()
        .flag(Group::Source, "kube-api-qps", "NUMBER")
        .help("Maximum requests to the apiserver per second, on average."),
    setting("clientConnection.burst", Reconnect, |c| &mut c.client_connection.burst)
        .zero_is_unset()
        .flag(Group::Source, "kube-api-burst", "NUMBER")
        .help("Maximum burst of requests to the apiserver."),
    setting("configSyncPeriod", Live, |c| &mut c.config_sync_period)
        .zero_is_unset()
        .effect(Effect::NotYet)
        .flag(Group::Source, "config-sync-period", "DURATION")
        .help("How often objects of the apiserver are refreshed; must be greater than 0."),
    setting("hostnameOverride", Reconnect, |c| &mut c.hostname_override)
        .flag(Group::Source, "hostname-override", "NAME")
        .help("The name of this node in the cluster, instead of the host name; also used with --config."),
    setting("featureGates", Rewrite, |c| &mut c.feature_gates)
        .omit_default()
        .flag(Group::General, "feature-gates", "GATE=BOOL[,...]")
        .help("Feature gates of Kubernetes; unknown ones are an error."),
];
