//! Values that cannot work: Helm says which, and what to set instead.

use crate::helm::{Helm, IMAGE, SERVER, text};

pub(crate) fn wrong_values(helm: &Helm) {
    let mistakes: &[(&[&str], &str)] = &[
        (&[], "apiServer is missing: set it to an address of the apiserver that works without any Service"),
        (&[SERVER], "image.repository is missing: set it to where you pushed the image, such as"),
        (&["apiServer=10.0.0.1"], "apiServer \"10.0.0.1\" is not a URL such as https://10.0.0.1:6443"),
        (&["apiServer=https://kubernetes.default.svc"], "is the Service kubernetes, which works only once"),
        (
            &[SERVER, IMAGE, "mode=ebpf"],
            "at '/mode': value must be one of 'nftables', 'iptables', 'ipvs', 'userspace'",
        ),
        (
            &[SERVER, IMAGE, "mode=iptables", "image.tag=1.0"],
            "set image.tag to 1.0-iptables, or image.iptablesTools",
        ),
        (&[SERVER, IMAGE, "config.mode=ipvs"], "config.mode: set the value mode of the chart instead"),
        (
            &[SERVER, IMAGE, "config.healthzBindAddress=:1"],
            "config.healthzBindAddress: set the value healthz",
        ),
        (&[SERVER, IMAGE, "clusterCIDR=10.0.0.0"], "at '/clusterCIDR'"),
        (&[SERVER, IMAGE, "image.digest=latest"], "at '/image/digest'"),
        (&[SERVER, IMAGE, "imagge.tag=1"], "additional properties 'imagge' not allowed"),
        (&[SERVER, IMAGE, "healthz.port=99999"], "at '/healthz/port'"),
        (&[SERVER, IMAGE, "updateStrategy.type=Recreate"], "at '/updateStrategy/type'"),
        (&[SERVER, IMAGE, "seccomp.type=Default"], "at '/seccomp/type'"),
    ];
    for (values, expected) in mistakes {
        let output = helm.template(values);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{values:?} is rendered");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(expected)).collect();
        assert_eq!(lines.len(), 1, "{values:?}: expected {expected:?} in one line of\n{said}");
    }
}
