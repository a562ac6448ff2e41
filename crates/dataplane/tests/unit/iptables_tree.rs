//! Trees of chains: their shape follows from their keys alone.

use model::{Address, Protocol};

use super::*;

#[derive(PartialEq)]
struct To(&'static str);

impl Leaf for To {
    fn write(&self, _: &Key, rule: &mut String) {
        let _ = write!(rule, " -j {}", self.0);
    }
}

fn key(number: u32) -> Key {
    let ip = std::net::Ipv4Addr::from_bits(0x0a60_0000 + number);
    Key::of(Address::Vip(ip.into(), 80), Protocol::Tcp)
}

fn tree(numbers: impl Iterator<Item = u32>) -> Tree<To> {
    let mut tree = Tree::new("ROOT", "KUBE-SVC-");
    numbers.for_each(|number| tree.insert(key(number), To("X")));
    tree
}

/// The rules that a packet to this key meets, up to the one that is its own.
fn met(chains: &[Chain], wanted: u32) -> usize {
    let ip = std::net::Ipv4Addr::from_bits(0x0a60_0000 + wanted);
    let (mut chain, mut met) = (&chains[0], 0);
    'next: loop {
        for line in chain.text.lines() {
            met += 1;
            let words: Vec<&str> = line.split(' ').collect();
            let net: ipnet::Ipv4Net = words[3].parse().unwrap();
            if net.contains(&ip) {
                let target = words[words.len() - 1];
                if target == "X" {
                    return met;
                }
                chain = chains.iter().find(|chain| chain.name == target).unwrap();
                continue 'next;
            }
        }
        panic!("{ip} is nowhere");
    }
}

#[test]
fn few_keys_need_no_tree() {
    let chains = tree(0..16).chains();
    assert_eq!((chains.len(), chains[0].rules), (1, 16));
    assert!(chains[0].text.starts_with("-A ROOT -d 10.96.0.0/32 -p tcp -m tcp --dport 80 -j X\n"));
}

#[test]
fn every_key_is_found_within_few_rules() {
    for count in [17_u32, 300, 10_000] {
        // Spread over a /16 as an apiserver's allocator does, without repeating.
        let numbers: Vec<u32> = (0..count).map(|number| number * 40_503 % 65_536).collect();
        let chains = tree(numbers.iter().copied()).chains();
        let worst = numbers.iter().map(|number| met(&chains, *number)).max().unwrap();
        assert!(worst <= 100, "{worst} rules among {count} keys");
        assert!(chains.len() <= 1 + numbers.len() / 8, "{} chains for {count} keys", chains.len());
    }
}

#[test]
fn a_change_touches_few_chains() {
    let mut tree = tree((0..10_000).map(|number| number * 40_503 % 65_536));
    let all = tree.take();
    assert!(all.gone.is_empty() && all.rules_before == 0);
    assert!(tree.take().chains.is_empty(), "nothing changed");
    tree.remove(&key(40_503));
    tree.insert(key(0x1_0000), To("X"));
    let difference = tree.take();
    let rules: usize = difference.chains.iter().map(|chain| chain.rules).sum();
    assert!(difference.chains.len() <= 4 && rules <= 200, "{difference:?}");
}

/// Whatever came and went before, the same keys make the same chains.
#[test]
fn what_was_taken_adds_up_to_what_is_there() {
    let mut tree = tree(0..0);
    let mut held: HashMap<String, String> = HashMap::new();
    let mut random = 1_u32;
    for _ in 0..400 {
        for _ in 0..7 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (random >> 8) % 700 * 97;
            match random % 3 {
                0 => tree.remove(&key(number)),
                _ => tree.insert(key(number), To("X")),
            }
        }
        let difference = tree.take();
        difference.gone.iter().for_each(|name| drop(held.remove(name)));
        held.extend(difference.chains.into_iter().map(|chain| (chain.name, chain.text)));
        let whole: HashMap<String, String> =
            tree.chains().into_iter().map(|chain| (chain.name, chain.text)).collect();
        assert_eq!(held, whole);
    }
}

#[test]
fn many_ports_of_one_address_make_a_tree_too() {
    let mut tree = Tree::new("ROOT", "KUBE-SVC-");
    for port in 30_000..32_000 {
        tree.insert(Key::of(Address::NodePort(port), Protocol::Tcp), To("X"));
    }
    let chains = tree.chains();
    assert!(chains.iter().all(|chain| chain.rules <= FULL), "{chains:?}");
    assert!(chains.iter().any(|chain| chain.name == "KUBE-SVC-NP-tcp-30208-8"), "{chains:?}");
}

#[test]
fn a_few_chosen_addresses_do_not_flatten_the_tree() {
    let mut tree = Tree::new("ROOT", "KUBE-SVC-");
    let service = |number: u128| (0xfd00_0010_0096_u128 << 80) + number;
    (0..10_000).for_each(|n| {
        tree.insert(Key::whole(std::net::Ipv6Addr::from_bits(service(n * 40_503 % 65_536)).into()), To("X"))
    });
    for chosen in ["1000::1", "f000::1", "fd10::1", "fd01::1", "fd00:1000::1", "fd00:100::1", "fd00:10::1"] {
        tree.insert(Key::whole(chosen.parse().unwrap()), To("X"));
    }
    let longest = tree.chains().iter().map(|chain| chain.rules).max().unwrap();
    assert!(longest <= 64, "{longest} rules in a row");
}

/// Addresses chosen so that each nibble splits.
#[test]
fn nobody_makes_a_tree_deeper_than_the_kernel_follows() {
    let mut tree = Tree::new("ROOT", "KUBE-SVC-");
    let base = 0xfd00_u128 << 112;
    for nibble in 0..32 {
        for other in 1..16_u128 {
            let ip = std::net::Ipv6Addr::from_bits(base ^ other << (4 * nibble));
            tree.insert(Key::whole(ip.into()), To("X"));
        }
    }
    let chains = tree.chains();
    assert!(chains.iter().all(|chain| chain.name.len() <= 28));
    assert!(chains.len() < 200, "{}", chains.len());
    fn depth(chains: &[Chain], name: &str) -> usize {
        let chain = chains.iter().find(|chain| chain.name == name).unwrap();
        let targets = chain.text.lines().filter_map(|line| line.rsplit_once(" -j ").map(|(_, to)| to));
        1 + targets.filter(|to| *to != "X").map(|to| depth(chains, to)).max().unwrap_or(0)
    }
    assert_eq!(depth(&chains, "ROOT"), DEEPEST + 1);
}
