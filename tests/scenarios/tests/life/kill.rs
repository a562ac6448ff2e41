//! Kills at random moments under churn: whatever the last life left, the next one makes it right, and
//! a stable service never notices.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

use model::{Family, Protocol};
use test_support::{Carrier, Case, ServiceManifest, fewer, wait_until};

use super::places::at_cluster_ip;
use super::rig::{Destinations, every_mode};
use super::stage::{From, OTHER_NODE, POD_PORT, SOON, Stage, list, slices};
use super::traffic::Traffic;

const KILLS: u16 = 100;
const SERVICES: u16 = 200;
/// Services a file; the churn writes one file at a time.
const PER_FILE: u16 = 20;
const LONGEST_LIFE_MS: u64 = 150;

pub(crate) fn cases() -> Vec<Case<'static>> {
    every_mode("kills at any moment leave no wrong rule behind", kills)
}

/// Splitmix64: small, and good enough to choose moments.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % limit
    }
}

/// What the manifests say: for each service its port and its pods, by number.
type Wanted = BTreeMap<u16, (u16, Vec<u16>)>;

fn vip(number: u16, family: Family) -> IpAddr {
    match family {
        Family::V4 => [10, 96, 8, number as u8].into(),
        Family::V6 => [0xfd00, 0x96, 0, 0, 0, 0, 0, 0x8000 + number].into(),
    }
}

fn pod(number: u16, family: Family) -> IpAddr {
    match family {
        Family::V4 => [10, 244, 2, number as u8].into(),
        Family::V6 => [0xfd00, 0x244, 2, 0, 0, 0, 1, number].into(),
    }
}

fn roll(dice: &mut Dice, wanted: &mut Wanted, number: u16) {
    let first = dice.below(200) as u16;
    let pods = (first..first + dice.below(6) as u16).collect();
    match dice.below(8) {
        0 => drop(wanted.remove(&number)),
        _ => drop(wanted.insert(number, (80 + dice.below(2) as u16, pods))),
    }
}

fn write_file(stage: &Stage, wanted: &Wanted, file: u16) {
    let numbers = file * PER_FILE..(file + 1) * PER_FILE;
    let items = wanted.range(numbers).flat_map(|(number, (port, pods))| {
        let name = format!("crowd-{number}");
        let ips = Family::BOTH.map(|family| vip(*number, family));
        let service = ServiceManifest::new(&name, &ips).port("main", Protocol::Tcp, *port, 0);
        let pods: Vec<_> =
            pods.iter().map(|number| Family::BOTH.map(|family| pod(*number, family))).collect();
        let slices = slices(&name, Protocol::Tcp, &pods, &vec![OTHER_NODE; pods.len()]);
        std::iter::once(service.to_json()).chain(slices)
    });
    stage.folder.put(&format!("crowd-{file:02}"), &list(items));
}

fn kills(carrier: Carrier) {
    let seed = std::env::var("POINTSMAN_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = seed.unwrap_or(now.as_nanos() as u64);
    println!("{}: kills: POINTSMAN_SEED={seed}", carrier.name());
    let (mut dice, mut wanted) = (Dice(seed), Wanted::new());
    let mut stage = Stage::of(carrier);
    stage.folder.put_service(&stage.service("stable", 1, Protocol::Tcp));
    stage.put_endpoints("stable", Protocol::Tcp, &["a", "b", "c"]);
    (0..SERVICES).for_each(|number| roll(&mut dice, &mut wanted, number));
    (0..SERVICES / PER_FILE).for_each(|file| write_file(&stage, &wanted, file));
    stage.start();
    let pairs = Family::BOTH.map(|family| (From::Guest, at_cluster_ip(1, family)));
    let traffic = Traffic::start(&stage, &pairs);
    let (started, count) = (Instant::now(), fewer(stage.rig().rounds(KILLS)));
    for kill in 0..count {
        // Half of the lives end before they are ready.
        if kill % 2 == 0 {
            stage.agent().await_ready().unwrap_or_else(|why| panic!("{why}"));
            assert_rules(&stage, &wanted, &format!("kill {kill}, seed {seed}"));
        }
        let life = Duration::from_millis(dice.below(LONGEST_LIFE_MS));
        let born = Instant::now();
        while born.elapsed() < life {
            let file = dice.below(u64::from(SERVICES / PER_FILE)) as u16;
            for number in file * PER_FILE..(file + 1) * PER_FILE {
                roll(&mut dice, &mut wanted, number);
            }
            write_file(&stage, &wanted, file);
        }
        stage.agent().kill();
        stage.agent().launch().unwrap();
    }
    stage.agent().await_ready().unwrap_or_else(|why| panic!("{why}"));
    assert_rules(&stage, &wanted, "the last life");
    let (took, connections) = (started.elapsed(), traffic.finish_after(&[carrier], usize::from(count)));
    println!("{}: {count} kills in {took:?}, {connections} connections meanwhile", carrier.name());
    // As an agent would have written them that never saw anything else.
    let after = stage.rules();
    stage.agent().stop().unwrap();
    stage.clean_up();
    assert_eq!(stage.rules().concat(), Vec::<String>::new(), "--cleanup leaves rules");
    stage.agent().restart().unwrap();
    stage.await_rules(&after, "a fresh start writes other rules");
}

/// Ready means that the rules are those of the manifests, without further waiting: the files were at rest.
fn assert_rules(stage: &Stage, wanted: &Wanted, when: &str) {
    for family in Family::BOTH {
        let expected = expected(stage, wanted, family);
        let found = || stage.rig().destinations(stage, family);
        let is_so = wait_until(SOON, || found() == expected);
        assert!(is_so, "{when}, {family}: {}", differences(&expected, &found()));
    }
}

fn expected(stage: &Stage, wanted: &Wanted, family: Family) -> Destinations {
    let stable = ["a", "b", "c"].map(|pod| SocketAddr::new(stage.address(pod, family), POD_PORT));
    let crowd = wanted.iter().map(|(number, (port, pods))| {
        let pods = pods.iter().map(|number| SocketAddr::new(pod(*number, family), POD_PORT));
        (SocketAddr::new(vip(*number, family), *port), stage.rig().shown(pods.collect()))
    });
    crowd.chain([(at_cluster_ip(1, family), stage.rig().shown(stable.into()))]).collect()
}

fn differences(expected: &Destinations, found: &Destinations) -> String {
    let missing = expected.iter().filter(|(at, pool)| found.get(*at) != Some(pool));
    let surplus = found.iter().filter(|(at, pool)| expected.get(*at) != Some(pool));
    let lines =
        missing.map(|line| format!("wanted {line:?}")).chain(surplus.map(|line| format!("found {line:?}")));
    lines.take(6).collect::<Vec<_>>().join("\n")
}
