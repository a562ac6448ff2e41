//! Unit tests of `iptables/pins`.

use super::*;

#[test]
fn the_first_list_with_the_client_says_where_and_how_long() {
    let folder = std::env::temp_dir().join(format!("pointsman-recent-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let clock = Jiffies { now: 4_295_100_000, per_second: 1000 };
    let line = |client: &str, seconds: u64| {
        let seen = clock.now - 1000 * seconds;
        format!("src={client} ttl: 64 last_seen: {seen} oldest_pkt: 2 {seen}, {seen}\n")
    };
    std::fs::write(folder.join("A"), line("10.0.0.1", 20) + &line("10.0.0.2", 3)).unwrap();
    let six = "fd00:0000:0000:0000:0000:0000:0000:0002";
    std::fs::write(folder.join("B"), line("10.0.0.1", 4) + &line(six, 1) + "src=10.0.0.9\n").unwrap();
    let at = |port: u16| SocketAddr::from(([10, 1, 0, 1], port));
    let each = ["A", "B", "C"].iter().zip(1..).map(|(list, port)| ((*list).to_owned(), at(port))).collect();
    let lists = Lists { seconds: 10, each };
    let pin = |client: &str, clock: Option<Jiffies>| {
        lists
            .find(client.parse().unwrap(), &folder, clock)
            .map(|pin| (pin.to.port(), pin.left.map(|left| left.as_secs())))
    };
    assert_eq!(pin("10.0.0.1", Some(clock)), Some((2, Some(6))), "that of list A is over");
    assert_eq!(pin("10.0.0.2", Some(clock)), Some((1, Some(7))));
    assert_eq!(pin("fd00::2", Some(clock)), Some((2, Some(9))));
    assert_eq!(pin("10.0.0.9", Some(clock)), Some((2, None)), "a line without a time");
    assert_eq!(pin("10.0.0.1", None), Some((1, None)), "without a clock");
    assert_eq!(pin("10.0.0.3", Some(clock)), None);
    std::fs::remove_dir_all(&folder).unwrap();
}
