//! Packets that are refused, counted for their service, in the modes that do that.

use model::Family;
use test_support::{Carrier, Case, wait_until};

use super::nftables::counters::{COUNT, DNS, WEB, put_open, ways};
use super::places::at_cluster_ip;
use super::rig::in_mode;
use super::stage::{From, SOON, Stage};

pub(crate) fn cases() -> Vec<Case<'static>> {
    let modes = [Carrier::Nftables, Carrier::Ipvs, Carrier::Userspace];
    modes.map(|carrier| in_mode(carrier, "service counters tell who is refused", refused)).into()
}

fn refused(carrier: Carrier) {
    let mut stage = Stage::of(carrier);
    put_open(&stage, WEB.0, WEB.1, WEB.2);
    put_open(&stage, DNS.0, DNS.1, DNS.2);
    stage.put_endpoints(DNS.1, DNS.2, &["a"]);
    stage.start_with(&[COUNT]);
    for family in Family::BOTH {
        for to in ways(WEB.0, family) {
            assert!(stage.tcp(From::Guest, to).by().is_none(), "{to}");
        }
        assert!(stage.tcp(From::Node, at_cluster_ip(WEB.0, family)).by().is_none());
        stage.who(DNS.2, From::Guest, at_cluster_ip(DNS.0, family));
    }
    for family in Family::BOTH {
        let labels = "namespace=\"default\",service=\"web\",port=\"main\",protocol=\"TCP\"";
        let series = format!("pointsman_service_refused_packets_total{{{labels},ip_family=\"{family}\"}}");
        let wanted = ways(WEB.0, family).len() as f64 + 1.0;
        let is_told = wait_until(SOON, || stage.metric(&series) == Some(wanted));
        assert!(is_told, "{series}: {:?}, not {wanted}", stage.metric(&series));
    }
    let page = stage.agent().metrics().unwrap_or_default();
    let of_others =
        page.lines().filter(|line| line.starts_with("pointsman_service_refused") && line.contains("dns"));
    assert_eq!(of_others.count(), 0);
    let of_web = page.lines().filter(|line| line.starts_with("pointsman_service_packets_total{"));
    assert_eq!(of_web.filter(|line| line.contains("\"web\"")).count(), 0, "nothing was forwarded for it");
}
