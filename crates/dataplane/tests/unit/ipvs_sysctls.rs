//! Sysctls are set, kept, and not fought over.

use super::*;
use std::path::PathBuf;

const CONNTRACK: &str = "/proc/sys/net/ipv4/vs/conntrack";

/// A folder that stands for the machine, with every file at 0.
fn node(name: &str) -> (PathBuf, Sysctls) {
    let folder = std::env::temp_dir().join(format!("pointsman-sysctls-{name}-{}", std::process::id()));
    for (file, _) in sysctls(true) {
        let path = folder.join(file.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "0\n").unwrap();
    }
    (folder.clone(), Sysctls::new(Root::at(folder)))
}

fn values(kept: &Sysctls) -> Vec<String> {
    sysctls(true).iter().map(|(file, _)| kept.files.root().read(file).unwrap()).collect()
}

#[test]
fn what_is_different_is_set_and_strict_arp_at_once() {
    let (folder, mut kept) = node("set");
    let now = Instant::now();
    kept.keep(false, now);
    assert_eq!(values(&kept), ["1", "1", "1", "1", "0", "0"]);
    kept.keep(true, now);
    assert_eq!(values(&kept), ["1", "1", "1", "1", "1", "2"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn who_keeps_changing_one_slows_the_looks_and_is_told_seldom() {
    let (folder, mut kept) = node("fight");
    let begin = Instant::now();
    let (mut set, mut told) = (0, HashSet::new());
    for second in 0..600 {
        kept.files.root().write(CONNTRACK, 0).unwrap();
        kept.keep(false, begin + Duration::from_secs(second));
        set += usize::from(kept.files.root().read(CONNTRACK).unwrap() == "1");
        told.extend(kept.told.get(CONNTRACK).copied());
    }
    assert!((10..30).contains(&set), "{set} times");
    assert_eq!(told.len(), 1);
    // It is over: the usual pace is back.
    for second in 600..720 {
        kept.keep(false, begin + Duration::from_secs(second));
    }
    kept.files.root().write(CONNTRACK, 0).unwrap();
    kept.keep(false, begin + Duration::from_secs(721));
    assert_eq!(kept.files.root().read(CONNTRACK).unwrap(), "1");
    std::fs::remove_dir_all(folder).unwrap();
}
