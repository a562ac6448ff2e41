//! What is printed of mode userspace, and the limits that it must keep.

use super::UserspaceResult;
use super::parts::{Crowd, Killed, Leak, Udp};
use crate::results::Limit;
use bench_support::table::{self, row, time};

pub(crate) fn judge(result: &UserspaceResult) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut push = |what: &str, measured: String, limit: &str, kept: bool| {
        limits.push(Limit { what: format!("userspace: {what}"), measured, limit: limit.to_owned(), kept });
    };
    let UserspaceResult { direct, haproxy, forwarder, leak, slow_readers, killed, .. } = result;
    let mut ratio = |what: &str, ours: f64, theirs: f64, least: f64| {
        let ratio = ours / theirs;
        push(what, format!("{ratio:.2}"), &format!("at least {least}"), ratio >= least);
    };
    ratio("one stream beside the direct path", forwarder.gigabits, direct.gigabits, 0.5);
    if let Some(haproxy) = haproxy {
        ratio("one stream beside HAProxy", forwarder.gigabits, haproxy.gigabits, 0.8);
        ratio("short connections beside HAProxy", forwarder.connections, haproxy.connections, 1.0);
    }
    let [alone, beside] = slow_readers.gigabits;
    ratio("one stream beside slow readers", beside, alone, 0.7);
    let [alone, beside] = slow_readers.short_us;
    push(
        "a short connection beside slow readers",
        format!("{:.2}", beside / alone),
        "at most 2",
        beside / alone <= 2.0,
    );
    let left = leak.descriptors.max(0) + leak.open;
    push("descriptors and connections left over", left.to_string(), "none", left == 0);
    push("memory left over", format!("{} KiB", leak.kib), "at most 2048 KiB", leak.kib <= 2048);
    let Killed { held, broken, short_broken, at_once, .. } = killed;
    push(
        "broken connections of other endpoints",
        broken[1].to_string(),
        "none",
        broken[1] == 0 && held[1] > 0,
    );
    push(
        "broken short connections as one of three endpoints is killed",
        short_broken.to_string(),
        &format!("at most {at_once}"),
        short_broken <= at_once,
    );
    let crossed = result.udp.crossed;
    push("UDP clients with the answer of another", crossed.to_string(), "none", crossed == 0);
    let lost = result.udp.lost * 1_000 / result.udp.clients.max(1);
    push("UDP clients without an answer", format!("{lost} of 1000"), "at most 10", lost <= 10);
    limits
}

pub(crate) fn judge_crowd(crowd: &Crowd) -> Limit {
    let kib = crowd.bytes_each / 1024.0;
    Limit {
        what: format!("userspace: memory of one of {} open connections", crowd.count),
        measured: format!("{kib:.1} KiB"),
        limit: "at most 20 KiB".to_owned(),
        kept: kib <= 20.0,
    }
}

pub(crate) fn print_crowd(crowd: &Crowd) {
    let kib = crowd.bytes_each / 1024.0;
    let [rest, full] = crowd.kib.map(|kib| kib as f64 / 1024.0);
    println!(
        "\nMode userspace: {} open connections take {kib:.1} KiB each in the agent, which grew from {rest:.1} to \
         {full:.1} MiB",
        crowd.count
    );
}

pub(crate) fn print(result: &UserspaceResult) {
    let mut rows = vec![row(["", "one stream", "short connections"])];
    let ways = [
        ("direct path", Some(result.direct)),
        ("HAProxy", result.haproxy),
        ("mode userspace", Some(result.forwarder)),
    ];
    for (name, way) in ways {
        let Some(way) = way else { continue };
        rows.push(vec![
            name.to_owned(),
            format!("{:.2} Gbit/s", way.gigabits),
            format!("{:.0} per second", way.connections),
        ]);
    }
    let title = format!(
        "Mode userspace beside others: the best of several rounds, in turns, with TCP {}",
        result.congestion_control
    );
    table::print(&title, &rows);
    let UserspaceResult { leak, slow_readers, killed, udp, .. } = result;
    let Leak { connections, descriptors, open, kib } = leak;
    println!(
        "  {connections} short connections left {descriptors} descriptors, {open} connections, {kib} KiB"
    );
    let ([alone, beside], [quiet, crowded]) = (slow_readers.gigabits, slow_readers.short_us.map(time));
    println!(
        "  beside {} clients that never read ({:.1} KiB each): one stream {beside:.2} Gbit/s (alone {alone:.2}), a short \
         connection {crowded} (alone {quiet})",
        slow_readers.count, slow_readers.kib_each
    );
    let Killed { held, broken, short, short_broken, .. } = killed;
    println!(
        "  one of three endpoints killed: {} of its {} open connections broke, {} of {} of the others, and {short_broken} \
         of {short} short ones",
        broken[0], held[0], broken[1], held[1]
    );
    let Udp { clients, at_once, crossed, lost } = udp;
    println!("  {clients} UDP clients, {at_once} at once: {crossed} got the answer of another, {lost} none");
}
