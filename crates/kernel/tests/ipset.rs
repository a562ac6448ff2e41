//! Sets of ipset, listed and removed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use kernel::ipset;
use kernel::netlink::{Exchange, Protocol};
use kernel::netns::{Namespace, privileged_test};

/// `ipset create NAME hash:ip`; `false` if the kernel cannot.
fn create(name: &str) -> bool {
    let kind = (libc::NFNL_SUBSYS_IPSET as u16) << 8 | 2;
    let created = Exchange::open(Protocol::Netfilter).unwrap().command(kind, 0, &[2, 0, 0, 0], |message| {
        message.u8(1, 6);
        message.string(2, name);
        message.string(3, "hash:ip");
        message.u8(4, 0);
        message.u8(5, libc::AF_INET as u8);
        let nest = message.nest(7);
        message.end_nest(nest);
    });
    created.map_err(|refusal| println!("SKIPPED: the kernel makes no set hash:ip: {refusal}")).is_ok()
}

#[test]
fn sets_are_listed_and_removed() {
    privileged_test(|| {
        Namespace::new().unwrap().run(|| {
            assert_eq!(ipset::names().unwrap(), Vec::<String>::new());
            if !(create("KUBE-CLUSTER-IP") && create("theirs")) {
                return;
            }
            let mut names = ipset::names().unwrap();
            names.sort();
            assert_eq!(names, ["KUBE-CLUSTER-IP", "theirs"]);
            ipset::destroy("KUBE-CLUSTER-IP").unwrap();
            ipset::destroy("KUBE-CLUSTER-IP").unwrap();
            assert_eq!(ipset::names().unwrap(), ["theirs"]);
        });
    });
}
