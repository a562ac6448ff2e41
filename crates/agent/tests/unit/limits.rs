//! What is said about services that ask for too much.

use super::*;
use telemetry::logging::capture::heard;

#[test]
fn services_that_are_no_longer_too_large_are_told_also_by_a_rewrite() {
    let mut limits = Limits::new(Family::V4, Recorder::nowhere());
    let too_large = |name: &str| (ServiceKey::from(name), Excess { ports: 1, endpoints: 0 });
    let (_, log) = heard(&["v=2"], || {
        limits.report(&[too_large("default/a"), too_large("default/b")], true);
        limits.report(&[too_large("default/a")], true);
        limits.report(&[("default/a".into(), Excess::default())], false);
    });
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 4, "{log}");
    for (line, service) in lines[2..].iter().zip(["default/b", "default/a"]) {
        assert!(line.contains("Resolved") && line.contains(service), "{log}");
    }
    assert_eq!(limits.notices.known().count(), 0);
}

#[test]
fn a_tenant_whose_services_come_and_go_neither_fills_the_log_nor_silences_others() {
    let mut limits = Limits::new(Family::V4, Recorder::nowhere());
    let start = Instant::now();
    let too_large = |name: String| (ServiceKey::from(name), Excess { ports: 1, endpoints: 0 });
    let (_, log) = heard(&["v=2"], || {
        for turn in 0..1000 {
            let one = too_large(format!("loud/s{}", turn % 10));
            limits.report_at(std::slice::from_ref(&one), false, start);
            limits.report_at(&[(one.0, Excess::default())], false, start);
        }
        limits.report_at(&[too_large("quiet/web".into())], false, start);
    });
    let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("quiet/web"), 1, "{log}");
    assert!((1..=100).contains(&lines("loud/")), "{} lines", lines("loud/"));
}

#[test]
fn a_tenant_with_thousands_of_services_that_are_too_large_does_not_silence_others() {
    let mut limits = Limits::new(Family::V4, Recorder::nowhere());
    let start = Instant::now();
    let too_large = |name: String| (ServiceKey::from(name), Excess { ports: 1, endpoints: 0 });
    let loud: Vec<_> = (0..5000).map(|number| too_large(format!("loud/s{number}"))).collect();
    let (_, log) = heard(&["v=2"], || {
        (0..2).for_each(|_| limits.report_at(&loud, false, start));
        limits.report_at(&[too_large("quiet/web".into())], false, start);
    });
    assert!(log.contains("service=\"quiet/web\""), "{log}");
    assert!(limits.notices.known().count() <= 2000);
}

#[test]
fn what_the_mode_leaves_out_of_a_service_that_comes_and_goes_is_told_a_few_times() {
    let mut limits = Limits::new(Family::V6, Recorder::nowhere());
    let (start, note) = (Instant::now(), "Mode x does not forward SCTP");
    let news = |service: &str, is_over| vec![Shortfall { service: service.into(), note, is_over }];
    let (_, log) = heard(&["v=2"], || {
        for _ in 0..100 {
            limits.report_shortfalls_at(news("loud/web", false), start);
            limits.report_shortfalls_at(news("loud/web", true), start);
        }
        limits.report_shortfalls_at(news("quiet/web", false), start);
        limits.report_shortfalls_at(news("quiet/web", false), start);
    });
    let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    assert!((1..=3).contains(&(lines("loud/web") / 2)), "{log}");
    assert_eq!(lines("quiet/web"), 1, "{log}");
    assert_eq!(lines("IPv6"), log.lines().count(), "{log}");
    assert_eq!(limits.shortfalls.known().count(), 1);
}

#[test]
fn what_the_mode_leaves_out_is_told_later_if_many_came_at_once_unless_it_is_over() {
    let mut limits = Limits::new(Family::V4, Recorder::nowhere());
    let start = Instant::now();
    let news = |number, is_over| {
        let service = format!("loud/s{number:02}").into();
        Shortfall { service, note: "Mode x does not forward SCTP", is_over }
    };
    let (_, log) = heard(&["v=2"], || {
        limits.report_shortfalls_at((0..20).map(|number| news(number, false)).collect(), start);
        limits.report_shortfalls_at((10..19).map(|number| news(number, true)).collect(), start);
        limits.report_shortfalls_at(Vec::new(), start + std::time::Duration::from_secs(600));
    });
    assert_eq!(log.lines().count(), 11, "{log}");
    assert!(log.contains("loud/s19") && !log.contains("loud/s18"), "{log}");
}
