//! What the chart renders, asked of a real apiserver by a dry run: strict fields, and warnings are errors.

use conformance_support::{ControlPlane, Kit, Options, paths};
use sandbox::Namespace;
use serde_json::{Value, json};
use test_support::{SOON, wait_until};

use crate::helm::{Helm, IMAGE, SERVER, of_kind, text};

/// Values that change which objects there are, or their form.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    values: &'static [&'static str],
}

pub(crate) const VARIANTS: &[Variant] = &[
    Variant { name: "defaults", values: &[] },
    Variant { name: "mode iptables", values: &["mode=iptables", "seccomp.type=Localhost"] },
    Variant {
        name: "mode ipvs, with the tools",
        values: &["mode=ipvs", "image.iptablesTools=true", "seccomp.type=Localhost"],
    },
    Variant { name: "mode userspace", values: &["mode=userspace", "terminationGracePeriodSeconds=90"] },
    Variant {
        name: "monitoring",
        values: &[
            "monitoring.podMonitor.enabled=true",
            "monitoring.prometheusRule.enabled=true",
            "monitoring.dashboard.enabled=true",
        ],
    },
    Variant {
        name: "canary, node by node",
        values: &["canary.enabled=true", "updateStrategy.type=OnDelete", "updateStrategy.rollingUpdate=null"],
    },
    Variant {
        name: "everything else",
        values: &[
            "nodeSetup.enabled=false",
            "config.conntrack.maxPerCore=0",
            "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "imagePullSecrets[0].name=registry",
            "env[0].name=HTTPS_PROXY",
            "env[0].value=http://proxy.example.com:3128",
            "podLabels.team=network",
            "podAnnotations.note=text",
        ],
    },
    Variant { name: "cleanup", values: &["cleanup.enabled=true", "mode=iptables"] },
];

pub(crate) fn lint(helm: &Helm) {
    let output = helm.run(&["lint", "deploy/helm/pointsman", "--strict", "--set", SERVER, "--set", IMAGE]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

pub(crate) fn by_the_apiserver(plane: &ControlPlane, helm: &Helm, variant: &Variant) {
    let objects = helm.objects(variant.values);
    for object in &objects {
        let warnings = plane.api().dry_run(&paths::object(object), object);
        let warnings = warnings.unwrap_or_else(|error| panic!("{error}\n{object:#}"));
        assert!(warnings.is_empty(), "{warnings:?}\n{object:#}");
    }
    let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    assert!(kinds.contains(&"DaemonSet") && kinds.contains(&"Pod"), "{kinds:?}");
}

/// The documents name "privileged"; a namespace of that level takes the pods, and one of the next level would not.
pub(crate) fn pod_security(plane: &ControlPlane, helm: &Helm) {
    let objects = helm.objects(&[]);
    let template = &of_kind(&objects, "DaemonSet")["spec"]["template"];
    for (level, is_enough) in [("privileged", true), ("baseline", false)] {
        let namespace = format!("level-{level}");
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels},
        });
        plane.api().create("/api/v1/namespaces", &object).unwrap();
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "pointsman", "namespace": namespace},
        });
        plane.api().create(&paths::collection(&account), &account).unwrap();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": namespace},
            "spec": template["spec"],
        });
        // Only kube-system may use this class.
        pod["spec"]["priorityClassName"] = Value::Null;
        let answer = plane.api().dry_run(&paths::object(&pod), &pod);
        assert_eq!(answer.is_ok(), is_enough, "{level}: {answer:?}");
        if let Err(error) = answer {
            assert!(error.to_string().contains("violates PodSecurity"), "{error}");
        }
    }
}

/// An apiserver that knows the kinds of the Prometheus operator too.
pub(crate) fn plane(kit: &Kit, helm: &Helm) -> ControlPlane {
    // As every cluster has it that runs a kube-proxy.
    let apiserver_flags = vec!["--allow-privileged=true".to_owned()];
    let options = Options { apiserver_flags, ..Options::default() };
    let plane = ControlPlane::start(kit, &Namespace::new().unwrap(), &options).unwrap();
    let there = || plane.api().get("/api/v1/namespaces/kube-system").is_ok();
    assert!(wait_until(SOON, there), "the apiserver made no kube-system");
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "kube-system"},
    });
    plane.api().create(&paths::collection(&account), &account).unwrap();
    for kind in ["podmonitors", "prometheusrules"] {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        plane.api().create(path, &helm.definition(kind)).unwrap();
        let collection = format!("/apis/monitoring.coreos.com/v1/namespaces/kube-system/{kind}");
        assert!(wait_until(SOON, || plane.api().list(&collection).is_ok()), "{kind} are not served");
    }
    plane
}
