//! Labels that say whose a slice is, and who proxies it.

use conformance_support::site::Expect;
use serde_json::json;

use super::stage::{At, Stage};

const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";

pub(crate) fn given_away(stage: &Stage) {
    let (donor, donee) = (stage.web("donor", 34), stage.web("donee", 35));
    donor.create().serve_by(&["a"]);
    donee.create();
    donor.expect(At::Cluster, Expect::By(&["a"]));
    donee.expect(At::Cluster, Expect::Refused);
    donor.patch_slices(&json!({"metadata": {"labels": {"kubernetes.io/service-name": "donee"}}}));
    donee.expect(At::Cluster, Expect::By(&["a"]));
    donor.expect(At::Cluster, Expect::Refused);
    donor.patch_slices(&json!({"metadata": {"labels": {"kubernetes.io/service-name": null}}}));
    donee.expect(At::Cluster, Expect::Refused);
}

/// What leaves a watch's selection is reported as a deletion, what comes into it as a creation.
pub(crate) fn slice_of_other_proxy(stage: &Stage) {
    let web = stage.web("slice-proxy", 36).create().serve_by(&["a"]).serve_in("2", &["b"], |_, e| e);
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
    for label in [OTHER_PROXY, "service.kubernetes.io/headless"] {
        web.patch_slices(&json!({"metadata": {"labels": {label: "somebody"}}}));
        web.expect(At::Cluster, Expect::By(&["b"]));
        web.patch_slices(&json!({"metadata": {"labels": {label: null}}}));
        web.expect(At::Cluster, Expect::By(&["a", "b"]));
    }
}

pub(crate) fn service_of_other_proxy(stage: &Stage) {
    let web = stage.web("service-proxy", 37).create_open().serve_by(&["a"]);
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.expect(At::NodePort, Expect::By(&["a"]));
    web.patch(json!({"metadata": {"labels": {OTHER_PROXY: "somebody"}}}));
    web.expect(At::Cluster, Expect::Silence);
    web.expect(At::NodePort, Expect::Refused);
    web.patch(json!({"metadata": {"labels": {OTHER_PROXY: null}}}));
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.expect(At::NodePort, Expect::By(&["a"]));
}
