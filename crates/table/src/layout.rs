//! The constant part of the table: base chains, their rules, and the rules that come on demand.
//!
//! See `docs/nftables.md` for the picture. Two things to know before changing anything here: the verdict
//! maps must sit in a *jumped* chain, because a `goto` out of a base chain never comes back and
//! `slot-zero` would be dead; and nothing below a class chain may hold a verdict map, because the kernel
//! validates everything reachable at each change.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kernel::nft::{Batch, Chain, DynsetOp, Hook, HookKind, Reject, Rule, VerdictCode};
use model::{Family, LocalDetector, PortPlan, Protocol, Refusal};

use crate::class::{Class, Draw, Kind};
use crate::code::{Code, Field, NODE_PORT, VIP};
use crate::ipvs_rules;
use crate::meter::Counting;
use crate::pinning::{Members, Pinning, writing_chain};
use crate::pool::PoolId;
use crate::refusals::counter;
use crate::sets::{Door, SetName, beside_ipvs, permanent};

/// How the comment of a table of this layout begins; another one means another owner or version.
const TABLE_COMMENT: &str = "rules for kube-proxy; flat layout 3";
pub const TABLE: &str = "kube-proxy";

pub(crate) const PREROUTING: u32 = 0;
pub(crate) const INPUT: u32 = 1;
const FORWARD: u32 = 2;
pub(crate) const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;

const PRE_DNAT: i32 = -110;
const DNAT: i32 = -100;
pub(crate) const POST_DNAT: i32 = -90;
const FILTER: i32 = 0;
const SNAT: i32 = 100;
/// Behind the hooks of IPVS, which take requests at 99.
pub(crate) const BEHIND_IPVS: i32 = 110;

const ORIGINAL_VIP: [Field; 3] = [Field::OriginalDestination, Field::Protocol, Field::OriginalPort];
const ORIGINAL_NODE_PORT: [Field; 2] = [Field::Protocol, Field::OriginalPort];
const ENDPOINT: [Field; 2] = [Field::Destination, Field::DestinationPort];
pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// What the rules of a table depend on besides the services and the node.
#[derive(Clone, Debug)]
pub struct TableSetup {
    pub family: Family,
    pub detector: LocalDetector,
    /// The packet mark that asks for masquerade, as a value (bit 14: 0x4000).
    pub masquerade_mark: u32,
    /// What is counted of every service port.
    pub counting: Counting,
    /// How many pins each of the two maps holds at most. When one is full, new clients go unpinned.
    pub room_for_pins: u32,
    pub picker: Picker,
    /// Addresses of the node that serve node ports, as far as they decide who picks.
    pub on_node: Vec<IpAddr>,
    /// What a mode that shares the table adds to it.
    pub addition: Option<Arc<dyn Addition>>,
}

/// Rules that a mode puts in front of those of the table, in the base chains that are there.
pub trait Addition: fmt::Debug + Send + Sync {
    /// Tells its table from others, in the comment.
    fn comment(&self) -> &'static str;

    fn declare(&self, setup: &TableSetup, batch: &mut Batch);
}

/// Who picks the endpoint of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picker {
    /// The rules of the table.
    Rules,
    /// IPVS, for most ports: the rules lead packets there and do the rest. Packets for external addresses get this mark,
    /// by which a routing rule makes them local.
    Ipvs { local_mark: u32 },
}

/// The mark of packets that are to be local: a bit that masquerading does not use.
pub fn local_mark(masquerade_mark: u32) -> u32 {
    const USUAL: u32 = 1 << 13;
    if masquerade_mark == USUAL { USUAL >> 1 } else { USUAL }
}

impl TableSetup {
    /// Whether rules pick the endpoints of a port.
    pub fn picks_for(&self, port: &PortPlan) -> bool {
        self.picker == Picker::Rules || !port.is_picked_by_ipvs(&self.on_node)
    }

    pub fn nft_family(&self) -> kernel::nft::TableFamily {
        nft_family(self.family)
    }

    /// Marks a table as ours, and as one whose pins were made by the same idea of what is local: a pin of a
    /// client that counted as a pod may name an endpoint that is none for a client outside.
    pub fn table_comment(&self) -> String {
        let local = match &self.detector {
            LocalDetector::None => "none".to_owned(),
            LocalDetector::Cidrs(nets) => match nets.iter().find(|net| Family::of_net(net) == self.family) {
                Some(net) => net.to_string(),
                None => "none".to_owned(),
            },
            LocalDetector::Bridge(name) => format!("bridge {name}"),
            LocalDetector::InterfacePrefix(prefix) => format!("interfaces {prefix}*"),
        };
        let picker = match self.picker {
            Picker::Rules => "",
            Picker::Ipvs { .. } => " beside IPVS",
        };
        let addition = self.addition.as_ref().map(|addition| addition.comment()).unwrap_or_default();
        format!("{TABLE_COMMENT}{picker}{addition}; local: {local}")
    }

    pub fn code<'a>(&self) -> Code<'a> {
        Code::new(self.family)
    }

    /// Narrow a rule to sources that are (not) pods of this node; `None` without a detector.
    fn if_pod<'a>(&self, pod: bool) -> Option<Code<'a>> {
        match &self.detector {
            LocalDetector::None => None,
            LocalDetector::Cidrs(nets) => {
                let net = nets.iter().find(|net| Family::of_net(net) == self.family)?;
                Some(self.code().source_within(net, pod))
            }
            LocalDetector::Bridge(name) => Some(self.code().interface(name, true, pod)),
            LocalDetector::InterfacePrefix(prefix) => Some(self.code().interface(prefix, false, pod)),
        }
    }

    /// Sets, chains and rules of an empty table.
    pub fn declare(&self, batch: &mut Batch) {
        for set in permanent() {
            self.declare_set(batch, set);
        }
        self.declare_counting_sets(batch);
        for (name, hook) in base_chains() {
            batch.add_chain(&Chain { name, hook: Some(hook) });
        }
        for name in PLAIN_CHAINS {
            batch.add_chain(&Chain { name, hook: None });
        }
        if let Picker::Ipvs { local_mark } = self.picker {
            self.declare_beside_ipvs(batch, local_mark);
        }
        if let Some(addition) = &self.addition {
            addition.declare(self, batch);
        }
        self.nat_rules(batch);
        self.service_rules(batch);
        self.filter_rules(batch);
    }

    /// The sets of any table of this layout.
    pub fn permanent_sets(&self) -> impl Iterator<Item = SetName> + use<> {
        let of_ipvs = (self.picker != Picker::Rules).then(beside_ipvs);
        permanent().into_iter().chain(of_ipvs.into_iter().flatten())
    }

    pub fn declare_set(&self, batch: &mut Batch, set: SetName) {
        batch.add_set(&set.declaration(self.family, self.room_for_pins, &set.name()));
    }

    fn nat_rules(&self, batch: &mut Batch) {
        for (base, services) in [("nat-prerouting", "services-prerouting"), ("nat-output", "services-output")]
        {
            if let Some(outsider) = self.if_pod(false) {
                let code = outsider.within(&[Field::Destination], "cluster-ips");
                rule(batch, base, code.set_mark(self.masquerade_mark));
            }
            if let Picker::Ipvs { .. } = self.picker {
                self.masquerade_before_ipvs(batch, base);
            }
            rule(batch, base, self.code().then(VerdictCode::Jump(services)));
            rule(batch, base, self.code().then(VerdictCode::Goto("slot-zero")));
        }
        let mark = self.masquerade_mark;
        rule(batch, "nat-postrouting", self.code().has_mark(mark).flip_mark(mark).masquerade());
        let hairpin = [Field::Source, Field::Destination, Field::Protocol, Field::DestinationPort];
        let code = match self.picker {
            Picker::Rules => self.code().redirected(),
            // What IPVS redirects does not count as redirected.
            Picker::Ipvs { .. } => self.code().goes_out_other_than("lo"),
        };
        rule(batch, "nat-postrouting", code.within(&hairpin, "hairpin-connections").masquerade());
    }

    /// Which class chain a destination uses. On output the source is the node: always inside.
    fn service_rules(&self, batch: &mut Batch) {
        let at_nodeport = || self.code().within(&[Field::Destination], "nodeport-addresses");
        for (hook, is_output) in [("prerouting", false), ("output", true)] {
            for (door, chain) in [(Door::Vip, "services"), (Door::NodePort, "nodeports")] {
                let chain = format!("{chain}-{hook}");
                let key = key_of(door);
                rule(batch, &chain, self.code().vmap(key, &SetName::Service(door).name()));
                let inside = if is_output { Some(self.code()) } else { self.if_pod(true) };
                if let Some(inside) = inside {
                    rule(batch, &chain, inside.vmap(key, &SetName::Internal(door).name()));
                }
                if !is_output {
                    rule(batch, &chain, self.code().vmap(key, &SetName::Local(door).name()));
                }
                if door == Door::Vip {
                    let next = format!("nodeports-{hook}");
                    rule(batch, &chain, at_nodeport().then(VerdictCode::Goto(&next)));
                }
                rule(batch, &chain, self.code().then(VerdictCode::Accept));
            }
        }
        // Reached only by a packet that met a commit between its two lookups and lost its slot.
        let vip = [&VIP[..], &[Field::Random(1)]].concat();
        rule(batch, "slot-zero", self.code().dnat_by(&vip, "endpoints"));
        let node_port = [&NODE_PORT[..], &[Field::Random(1)]].concat();
        rule(batch, "slot-zero", at_nodeport().dnat_by(&node_port, "nodeport-endpoints"));
    }

    fn filter_rules(&self, batch: &mut Batch) {
        for base in ["filter-prerouting-pre-dnat", "filter-output-pre-dnat"] {
            let code = self.code().new_connection().within(&VIP, "firewalled-ips");
            rule(batch, base, code.then(VerdictCode::Goto("firewall-check")));
        }
        rule(batch, "firewall-check", self.code().then(VerdictCode::Jump("firewall-ranges")));
        self.count_refused(batch, "firewall-check", self.code(), Door::Vip);
        let kept_out = self.code().count(counter(Refusal::SourceRange));
        rule(batch, "firewall-check", kept_out.then(VerdictCode::Drop));
        for (base, next) in [
            ("filter-input", "input-new"),
            ("filter-forward", "forward-new"),
            ("filter-output", "forward-new"),
        ] {
            rule(batch, base, self.code().new_connection().then(VerdictCode::Goto(next)));
        }
        let first_redirected = || self.code().first_redirected().then(VerdictCode::Goto("affinity-record"));
        rule(batch, "input-new", first_redirected());
        let at_nodeport = || self.code().within(&[Field::Destination], "nodeport-addresses");
        let dropped = || at_nodeport().within(&NODE_PORT, "no-endpoint-drop-nodeports");
        self.count_refused(batch, "input-new", dropped(), Door::NodePort);
        let code = dropped();
        let code = code.count(counter(Refusal::NoLocalEndpoints));
        rule(batch, "input-new", code.then(VerdictCode::Drop));
        let rejected = || at_nodeport().within(&NODE_PORT, "no-endpoint-reject-nodeports");
        self.count_refused(batch, "input-new", rejected(), Door::NodePort);
        let code = rejected();
        let code = code.count(counter(Refusal::NoEndpoints));
        rule(batch, "input-new", code.then(VerdictCode::Goto("reject-it")));
        rule(batch, "forward-new", first_redirected());
        for chain in ["input-new", "forward-new"] {
            let dropped = || self.code().within(&VIP, "no-endpoint-drop-ips");
            self.count_refused(batch, chain, dropped(), Door::Vip);
            let code = dropped();
            let code = code.count(counter(Refusal::NoLocalEndpoints));
            rule(batch, chain, code.then(VerdictCode::Drop));
            let rejected = || self.code().within(&VIP, "no-endpoint-reject-ips");
            self.count_refused(batch, chain, rejected(), Door::Vip);
            let code = rejected();
            let code = code.count(counter(Refusal::NoEndpoints));
            rule(batch, chain, code.then(VerdictCode::Goto("reject-it")));
        }
        if self.picker != Picker::Rules {
            self.reject_not_taken(batch, "forward-new");
            self.accept_pings(batch, "forward-new");
        }
        let code = self.code().within(&[Field::Destination], "cluster-ips");
        let code = code.count(counter(Refusal::UnlistedPort));
        rule(batch, "forward-new", code.then(VerdictCode::Goto("reject-it")));
        let code = self.code().within(&[Field::Destination], "service-cidrs");
        let code = code.count(counter(Refusal::UnallocatedAddress));
        rule(batch, "forward-new", code.then(VerdictCode::Drop));
        let tcp = self.code().protocol(Protocol::Tcp.number());
        rule(batch, "reject-it", tcp.reject(Reject::TcpReset));
        rule(batch, "reject-it", self.code().reject(Reject::PortUnreachable));
    }

    /// A class chain; the classes it goes to must be declared before it.
    pub fn declare_class(&self, batch: &mut Batch, class: &Class) {
        let chain = class.name();
        batch.add_chain(&Chain { name: &chain, hook: None });
        let key = key_of(class.door);
        match class.kind {
            Kind::Plain => {}
            Kind::Masquerade => rule(batch, &chain, self.code().set_mark(self.masquerade_mark)),
            Kind::Internal => {
                // Without a detector only the node itself comes here, and it is no pod.
                let outsider = self.if_pod(false).unwrap_or_else(|| self.code());
                rule(batch, &chain, outsider.set_mark(self.masquerade_mark));
            }
        }
        if class.affine && class.kind != Kind::Masquerade {
            let pin = [&[Field::Source], key].concat();
            rule(batch, &chain, self.code().dnat_by(&pin, &SetName::Pins(class.door).name()));
        }
        match (class.next(), class.draw) {
            (Some(next), _) => rule(batch, &chain, self.code().then(VerdictCode::Goto(&next.name()))),
            (None, Draw::Common(size)) => {
                let slot = [key, &[Field::Random(size)]].concat();
                rule(batch, &chain, self.code().dnat_by(&slot, &class.pool().name()));
            }
            // The rule says how many slots there are, and is written with them.
            (None, Draw::Own(_)) => {}
        }
    }

    /// Draw among the slots of a port's own pool.
    pub fn draw_from(&self, batch: &mut Batch, pool: PoolId, protocol: Protocol, size: u32) {
        // nft reads a port behind a map back only after the protocol.
        let code = self.code().has_port(protocol.number());
        let map = SetName::Pool(pool).name();
        rule(batch, &drawing_chain(pool), code.dnat_by(&[Field::Random(size)], &map));
    }

    /// Not among as many as before.
    pub fn clear_pool(&self, batch: &mut Batch, pool: PoolId) {
        batch.flush_chain(&drawing_chain(pool));
    }

    /// A prefix length that source ranges use.
    pub fn declare_prefix_length(&self, batch: &mut Batch, length: u8) {
        let set = SetName::FirewallAllow(length);
        self.declare_set(batch, set);
        let key = [&VIP[..], &[Field::SourceNet(length)]].concat();
        rule(batch, "firewall-ranges", self.code().within(&key, &set.name()).then(VerdictCode::Accept));
    }

    /// What every affinity timeout needs; made with the first one, because nft before 1.0.9 cannot read
    /// IPv6 map statements back and most clusters have none.
    pub fn declare_affinity(&self, batch: &mut Batch) {
        for door in Door::BOTH {
            let (affine, map) = (SetName::Affine(door).name(), SetName::Pins(door).name());
            let members = SetName::Members(door).name();
            for protocol in PROTOCOLS.map(Protocol::number) {
                let code = self.code().protocol(protocol);
                let code = match door {
                    Door::Vip => code,
                    Door::NodePort => code.within(&[Field::OriginalDestination], "nodeport-addresses"),
                };
                rule(batch, "affinity-record", code.vmap(original_key(door), &affine));
                let key = [&[Field::Source], original_key(door)].concat();
                let code = self.code().has_port(protocol);
                let code = code.dynset(&map, DynsetOp::Delete, &key, &ENDPOINT, None);
                rule(batch, stale_chain(door), code.then(VerdictCode::Drop));
                let member = [original_key(door), &ENDPOINT].concat();
                let code = self.code().has_port(protocol).within(&member, &members);
                rule(batch, members_chain(door), code.then(VerdictCode::Return));
            }
            rule(batch, members_chain(door), self.code().then(VerdictCode::Goto(stale_chain(door))));
        }
    }

    /// An affinity timeout: the chains that write its pins, for members in the common sets and for any.
    ///
    /// The writing has a chain of its own that ends in `accept`: when the map is full, a writing rule ends
    /// without its verdict (seen on 6.18), and the client must then go unpinned, not be taken for stale.
    pub fn declare_timeout(&self, batch: &mut Batch, seconds: u32) {
        for door in Door::BOTH {
            let map = SetName::Pins(door).name();
            let write = writing_chain(door, seconds);
            batch.add_chain(&Chain { name: &write, hook: None });
            let key = [&[Field::Source], original_key(door)].concat();
            let timeout = Some(u64::from(seconds) * 1000);
            for protocol in PROTOCOLS.map(Protocol::number) {
                let code = self.code().has_port(protocol);
                rule(batch, &write, code.dynset(&map, DynsetOp::Update, &key, &ENDPOINT, timeout));
            }
            rule(batch, &write, self.code().then(VerdictCode::Accept));
            let pin = Pinning { door, seconds, members: Members::Common }.chain();
            batch.add_chain(&Chain { name: &pin, hook: None });
            rule(batch, &pin, self.code().then(VerdictCode::Jump(members_chain(door))));
            rule(batch, &pin, self.code().then(VerdictCode::Goto(&write)));
        }
    }

    /// The same for a port with its own pools: members are in sets of their own.
    pub fn declare_pinning(&self, batch: &mut Batch, pinning: &Pinning) {
        let chain = pinning.chain();
        batch.add_chain(&Chain { name: &chain, hook: None });
        let write = pinning.writing_chain();
        for pool in pinning.pools() {
            let members = SetName::PoolMembers(pool).name();
            for protocol in PROTOCOLS.map(Protocol::number) {
                let code = self.code().has_port(protocol).within(&ENDPOINT, &members);
                rule(batch, &chain, code.then(VerdictCode::Goto(&write)));
            }
        }
        rule(batch, &chain, self.code().then(VerdictCode::Goto(stale_chain(pinning.door))));
    }
}

const PLAIN_CHAINS: [&str; 15] = [
    "services-prerouting",
    "services-output",
    "nodeports-prerouting",
    "nodeports-output",
    "slot-zero",
    "firewall-check",
    "firewall-ranges",
    "reject-it",
    "affinity-stale",
    "affinity-nodeport-stale",
    "affinity-members",
    "affinity-nodeport-members",
    "affinity-record",
    "input-new",
    "forward-new",
];

fn base_chains() -> [(&'static str, Hook); 8] {
    let nat = |number, priority| Hook { kind: HookKind::Nat, number, priority };
    let filter = |number, priority| Hook { kind: HookKind::Filter, number, priority };
    [
        ("nat-prerouting", nat(PREROUTING, DNAT)),
        ("nat-output", nat(OUTPUT, DNAT)),
        ("nat-postrouting", nat(POSTROUTING, SNAT)),
        ("filter-prerouting-pre-dnat", filter(PREROUTING, PRE_DNAT)),
        ("filter-output-pre-dnat", filter(OUTPUT, PRE_DNAT)),
        ("filter-input", filter(INPUT, FILTER)),
        ("filter-forward", filter(FORWARD, FILTER)),
        ("filter-output", filter(OUTPUT, FILTER)),
    ]
}

pub fn nft_family(family: Family) -> kernel::nft::TableFamily {
    match family {
        Family::V4 => kernel::nft::TableFamily::Ip,
        Family::V6 => kernel::nft::TableFamily::Ip6,
    }
}

fn drawing_chain(pool: PoolId) -> String {
    Class::new(Door::Vip, Kind::Plain, false, Draw::Own(pool)).name()
}

pub(crate) fn is_permanent_chain(name: &str) -> bool {
    PLAIN_CHAINS.contains(&name)
        || base_chains().iter().any(|(base, _)| *base == name)
        || ipvs_rules::is_permanent_chain(name)
}

pub(super) fn key_of(door: Door) -> &'static [Field] {
    match door {
        Door::Vip => &VIP,
        Door::NodePort => &NODE_PORT,
    }
}

pub(crate) fn original_key(door: Door) -> &'static [Field] {
    match door {
        Door::Vip => &ORIGINAL_VIP,
        Door::NodePort => &ORIGINAL_NODE_PORT,
    }
}

fn stale_chain(door: Door) -> &'static str {
    match door {
        Door::Vip => "affinity-stale",
        Door::NodePort => "affinity-nodeport-stale",
    }
}

fn members_chain(door: Door) -> &'static str {
    match door {
        Door::Vip => "affinity-members",
        Door::NodePort => "affinity-nodeport-members",
    }
}

pub fn rule(batch: &mut Batch, chain: &str, code: Code<'_>) {
    batch.add_rule(&Rule { chain, expressions: code.done() });
}
