//! Endpoints on their way through life.

use conformance_support::site::Expect;

use super::stage::{At, Stage};

/// Endpoints that terminate are used while they serve and no other is ready.
pub(crate) fn terminating(stage: &Stage) {
    let web = stage.web("terminating", 46).create().serve_by(&["a", "b"]);
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
    web.serve_in("1", &["a", "b"], |name, endpoint| match name {
        "b" => endpoint.conditions(false, true, true),
        _ => endpoint,
    });
    web.expect(At::Cluster, Expect::By(&["a"]));
    web.serve_in("1", &["a", "b"], |_, endpoint| endpoint.conditions(false, true, true));
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
    web.serve_in("1", &["a", "b"], |name, endpoint| endpoint.conditions(false, name == "b", true));
    web.expect(At::Cluster, Expect::By(&["b"]));
    web.serve_in("1", &["a", "b"], |_, endpoint| endpoint.conditions(false, false, true));
    web.expect(At::Cluster, Expect::Refused);
    web.serve_by(&[]);
    web.expect(At::Cluster, Expect::Refused);
    web.serve_by(&["c"]);
    web.expect(At::Cluster, Expect::By(&["c"]));
}

/// Controllers move endpoints between slices: for a moment in both, or in none.
pub(crate) fn spread(stage: &Stage) {
    let web = stage.web("spread", 47).create().serve_by(&["a"]).serve_in("2", &["b"], |_, endpoint| endpoint);
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
    web.serve_in("2", &["a", "b"], |_, endpoint| endpoint);
    web.delete_slices("1");
    web.expect(At::Cluster, Expect::By(&["a", "b"]));
    web.serve_in("2", &["b"], |_, endpoint| endpoint);
    web.expect(At::Cluster, Expect::By(&["b"]));
    web.serve_by(&["c"]);
    web.expect(At::Cluster, Expect::By(&["b", "c"]));
    web.delete_slices("2");
    web.expect(At::Cluster, Expect::By(&["c"]));
}
