//! Entry points for `tests/fuzz` to the readers of what the kernel and the iptables tools say, which are private otherwise.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::conntrack::{Filter, Flow};
use crate::iptables::{Terms, judge, version};
use crate::link::{address, links, local, rule};
use crate::netlink::{Message, exchange, generic, messages};
use crate::nft::{Batch, CommitError, decode, monitor, sys, trace};
use crate::{ipset, ipvs};

/// Read a datagram in every way in which answers of the kernel are read. `batch` is what it may be the answer to.
pub fn netlink(datagram: &[u8], batch: &Batch) {
    let mut touched = Vec::new();
    for message in messages(datagram) {
        read_nf_tables(&message, batch);
        read_flow(&message);
        let _interface = links::read(&message);
        let _address = address::read(&message);
        let _route = local::read(&message, |index| Some(index.to_string()));
        let _rule = rule::read(&message).map(|rule| rule.to_string());
        let _set = ipset::read(&message);
        read_ipvs(&message);
        let _verdict = exchange::verdict(&message).map_err(|refusal| refusal.to_string());
        monitor::note(&mut touched, &message);
    }
}

fn read_nf_tables(message: &Message<'_>, batch: &Batch) {
    if let Some(answer) = decode::answer(message) {
        let _words = CommitError::refused(batch, &answer).to_string();
    }
    let _table = decode::table(message);
    let _counter = decode::counter(message, "kube-proxy");
    let _generation = decode::find(message, sys::NFTA_GEN_ID).and_then(|id| id.be32());
    for kind in [sys::NFTA_SET_NAME, sys::NFTA_CHAIN_NAME, sys::NFTA_CHAIN_TABLE] {
        let _name = decode::text(message, kind);
    }
    let _rule = decode::rule(message, "kube-proxy");
    let _step = trace::read(message);
    decode::elements(message).for_each(drop);
}

fn read_ipvs(message: &Message<'_>) {
    let _family = generic::read_family(message);
    let _server = ipvs::decode::server(message);
    let _destination = ipvs::decode::destination(message, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let _timeouts = ipvs::decode::timeouts(message);
    let _info = ipvs::decode::info(message);
}

fn read_flow(message: &Message<'_>) {
    if let Some(flow) = Flow::read(message.payload) {
        let _accepted = Filter::of(flow.family(), flow.protocol).accepts(&flow);
    }
}

/// What a complaint of an iptables tool over a script is taken to mean, and its version.
pub fn tool(said: &str, script: &str) -> String {
    let error = judge::judge(Path::new("iptables-restore"), said, script, &Terms::default());
    format!("{error} {:?}", version::parse(said))
}
