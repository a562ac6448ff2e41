//! A start over a table that is already in the kernel: ours from an earlier run, upstream's, or anybody's under the
//! same name. What the kernel says is in it are the bytes.

use std::sync::LazyLock;

use cluster::apiserver::{Encoding, fuzz};
use cluster::{ClusterState, Kind};
use dataplane::Reconciler;
use dataplane::nftables::{Nftables, TABLE_NAME, read_traffic};
use kernel::nft::{
    Batch, CommitError, CounterReading, DumpedElement, ElementData, Error, Table, TableFamily, Transport,
};
use model::LocalDetector;
use simulate::nft::Simulator;
use test_support::SettingsVariant;
use test_support::interpreted::{StatePlanner, node_view};

use super::Target;
use crate::Limits;
use crate::choices::Choices;

pub(super) const FOUND_TABLE: Target = Target {
    name: "found_table",
    run,
    limits: Limits { fixed: 32 << 20, per_byte: 4096 },
    seeds,
    dictionary: &[
        "affinity-X-default/web/tcp/http__10.244.1.1/80",
        "affinity-X-default/web/tcp/http__fd00.244..1/80",
        "service-ips",
        "affinity",
        "internal-ips",
    ],
    longest: 2048,
};

const MARK: u32 = 0x4000;
const SERVICE: &str = r#"{"metadata":{"name":"web","namespace":"default"},"spec":{"type":"NodePort","clusterIPs":
    ["10.96.0.1","fd00:96::1"],"clusterIP":"10.96.0.1","sessionAffinity":"ClientIP","externalTrafficPolicy":"Local",
    "externalIPs":["192.0.2.1"],"ports":[{"name":"http","port":80,"nodePort":30080}]}}"#;
const SLICES: [&str; 2] = [
    r#"{"metadata":{"name":"web-1","namespace":"default","labels":{"kubernetes.io/service-name":"web"}},"addressType":
        "IPv4","ports":[{"name":"http","port":80}],"endpoints":[{"addresses":["10.244.1.1"],"nodeName":"node-1"}]}"#,
    r#"{"metadata":{"name":"web-2","namespace":"default","labels":{"kubernetes.io/service-name":"web"}},"addressType":
        "IPv6","ports":[{"name":"http","port":80}],"endpoints":[{"addresses":["fd00:244::1"]}]}"#,
];

/// The first byte says whose table it is; what follows is what each question is answered with.
fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let is_ours = choices.below(2) == 1;
    let found = Found { choices, is_ours };
    let mut reconciler = Reconciler::new(nftables(found));
    let state = state();
    let planner = planner(&state);
    for family in model::Family::BOTH {
        // Interrupted readings are errors; nothing else may be.
        let _outcome = reconciler.sync_and_sweep(family, &[], &planner);
        let _traffic = read_traffic(reconciler.backend().transport(), family);
    }
}

fn nftables<T: Transport>(transport: T) -> Nftables<T> {
    Nftables::new(transport, &LocalDetector::None, MARK).count_traffic(true)
}

fn state() -> ClusterState {
    let mut state = ClusterState::default();
    let objects =
        [(Kind::Service, SERVICE), (Kind::EndpointSlice, SLICES[0]), (Kind::EndpointSlice, SLICES[1])];
    for (kind, text) in objects {
        state.change(fuzz::object(kind, Encoding::Json, text.as_bytes()).unwrap());
    }
    state
}

fn planner(state: &ClusterState) -> StatePlanner<'_> {
    let variant = SettingsVariant::NoDetector;
    StatePlanner {
        state,
        node: node_view(state),
        settings: variant.settings(),
        nodeport_addresses: variant.nodeport_addresses(),
    }
}

/// What identifies our own table.
static OUR_COMMENTS: LazyLock<[String; 2]> = LazyLock::new(|| {
    let mut reconciler = Reconciler::new(nftables(Simulator::new()));
    let state = state();
    for family in model::Family::BOTH {
        reconciler.sync_and_sweep(family, &[], &planner(&state)).unwrap();
    }
    [TableFamily::Ip, TableFamily::Ip6].map(|family| {
        let tables = reconciler.backend().transport().tables(family).unwrap();
        tables.into_iter().map(|table| table.comment).next().unwrap_or_default()
    })
});

struct Found<'a> {
    choices: Choices<'a>,
    is_ours: bool,
}

impl Found<'_> {
    fn text(&mut self) -> String {
        let length = self.choices.below(80);
        String::from_utf8_lossy(self.choices.bytes(length)).into_owned()
    }

    fn names(&mut self, known: &[&str]) -> Vec<String> {
        let count = self.choices.below(8);
        (0..count)
            .map(|_| match self.choices.below(known.len() + 1) {
                0 => self.text(),
                number => known[number - 1].to_owned(),
            })
            .collect()
    }

    fn interruption(&mut self) -> Result<(), Error> {
        match self.choices.chance(10) {
            true => Err(Error::Interrupted { what: "the table".into() }),
            false => Ok(()),
        }
    }
}

impl Transport for Found<'_> {
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        match self.choices.chance(20) {
            true => {
                Err(CommitError::of_message(batch, self.choices.byte().into(), self.choices.byte().into()))
            }
            false => Ok(()),
        }
    }

    fn generation(&mut self) -> Result<u32, Error> {
        Ok(self.choices.byte().into())
    }

    fn tables(&mut self, family: TableFamily) -> Result<Vec<Table>, Error> {
        let comment = match self.is_ours {
            true => OUR_COMMENTS[usize::from(family == TableFamily::Ip6)].clone(),
            false => self.text(),
        };
        Ok(vec![Table { name: TABLE_NAME.to_owned(), comment }])
    }

    fn sets(&mut self, _: TableFamily, _: &str) -> Result<Vec<String>, Error> {
        self.interruption()?;
        Ok(self.names(FOUND_TABLE.dictionary))
    }

    fn chains(&mut self, _: TableFamily, _: &str) -> Result<Vec<String>, Error> {
        Ok(self.names(&["nat-prerouting", "services"]))
    }

    fn set_size(&mut self, _: TableFamily, _: &str, _: &str, most: usize) -> Result<usize, Error> {
        self.interruption()?;
        Ok(self.choices.pick(&[0, 3, most, usize::MAX]))
    }

    fn dump_elements(
        &mut self,
        _: TableFamily,
        _: &str,
        _: &str,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<(), Error> {
        for _ in 0..self.choices.below(6) {
            let length = self.choices.pick(&[4, 16, 12, 24, 28, 40, 48, 1, 0, 64]);
            let key = self.choices.bytes(length);
            let length = self.choices.pick(&[0, 8, 20, 4]);
            let data = match self.choices.below(4) {
                0 => ElementData::None,
                1 => ElementData::Goto("chain"),
                _ => ElementData::Value(self.choices.bytes(length)),
            };
            let expires_ms = self.choices.pick(&[None, Some(1), Some(u64::MAX)]);
            let interval_end = self.choices.chance(128);
            each(DumpedElement { key, data, interval_end, timeout_ms: None, expires_ms, comment: None });
        }
        self.interruption()
    }

    fn counters(
        &mut self,
        _: TableFamily,
        _: &str,
        each: &mut dyn FnMut(CounterReading<'_>),
    ) -> Result<(), Error> {
        for _ in 0..self.choices.below(4) {
            let name = self.text();
            each(CounterReading { name: &name, packets: u64::MAX, bytes: 1 });
        }
        self.interruption()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut random = simulate::Xorshift::new(3);
    (1..=8_u32).map(|size| (0..size * 80).map(|_| random.draw(256) as u8).collect()).collect()
}
