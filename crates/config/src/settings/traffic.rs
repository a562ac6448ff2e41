//! Which packets go where, whatever the mode.

use super::OnChange::{Restart, Rewrite};
use super::{Group, Setting, setting};

pub(super) const ALL: &[Setting] = &[
    setting("mode", Restart, |c| &mut c.mode)
        .flag(Group::Traffic, "proxy-mode", "MODE")
        .help(crate::modes::HELP),
    setting("clusterCIDR", Rewrite, |c| &mut c.cluster_cidr)
        .flag(Group::Traffic, "cluster-cidr", "CIDR[,CIDR]")
        .help(
            "The prefixes of pod addresses, one per family; other sources of cluster-IP traffic are \
             masqueraded.",
        ),
    setting("detectLocalMode", Rewrite, |c| &mut c.detect_local_mode)
        .flag(Group::Traffic, "detect-local-mode", "MODE")
        .help(
            "How traffic of local pods is detected: ClusterCIDR, NodeCIDR, BridgeInterface or \
             InterfaceNamePrefix.",
        ),
    setting("detectLocal.bridgeInterface", Rewrite, |c| &mut c.detect_local.bridge_interface)
        .flag(Group::Traffic, "pod-bridge-interface", "NAME")
        .help("The pods' bridge, for --detect-local-mode=BridgeInterface."),
    setting("detectLocal.interfaceNamePrefix", Rewrite, |c| &mut c.detect_local.interface_name_prefix)
        .flag(Group::Traffic, "pod-interface-name-prefix", "PREFIX")
        .help("Name prefix of the pods' interfaces, for --detect-local-mode=InterfaceNamePrefix."),
    setting("nodePortAddresses", Rewrite, |c| &mut c.node_port_addresses)
        .flag(Group::Traffic, "nodeport-addresses", "CIDR[,...]")
        .help(
            "Node addresses that serve node ports: prefixes, or the words primary, localhost and all. If \
             unset, mode nftables uses primary and the other modes all.",
        ),
    setting("bindAddress", Rewrite, |c| &mut c.bind_address)
        .zero_is_unset()
        .flag(Group::Traffic, "bind-address", "IP")
        .help("The node's primary address, instead of the one in its Node object. No socket is bound to it."),
];
