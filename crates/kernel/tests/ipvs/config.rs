//! Timeouts and version.

use kernel::ipvs::{Timeouts, Transport};
use kernel::netns::privileged_test;

use crate::place::{told, with_ipvs};

#[test]
fn timeouts_are_set_one_by_one() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let before = connection.timeouts().unwrap();
            connection.set_timeouts(Timeouts { tcp: 901, tcp_fin: 0, udp: 301 }).unwrap();
            let after = Timeouts { tcp: 901, udp: 301, ..before };
            assert_eq!(connection.timeouts().unwrap(), after);
            let Some(said) = told("ipvsadm", "-Ln --timeout") else { return };
            assert_eq!(said.trim(), format!("Timeout (tcp tcpfin udp): 901 {} 301", before.tcp_fin));
        })
    });
}

#[test]
fn the_version_is_what_ipvsadm_says() {
    privileged_test(|| {
        with_ipvs(|connection| {
            let info = connection.info().unwrap();
            let Some(said) = told("ipvsadm", "-Ln") else { return };
            let (major, minor, patch) = info.version;
            let expected = format!(
                "IP Virtual Server version {major}.{minor}.{patch} (size={})",
                info.connection_table_size
            );
            assert_eq!(said.lines().next(), Some(expected.as_str()));
        })
    });
}
