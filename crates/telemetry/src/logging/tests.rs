use super::capture::{Reader, heard_by, listen, logging, messages};
use super::outlet::Outlet;
use super::sink::{self, Sink};
use super::subscriber::Log;
use super::*;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

fn say_all() {
    tracing::error!(service = %"default/a", error = %"no route", "failed");
    tracing::warn!(n = 1_u64, "odd");
    tracing::info!(full = true, name = "x \"y\"\n", "started");
    tracing::debug!("synced");
    tracing::trace!("asked");
    tracing::warn!(target: "hyper::client", "a library");
    tracing::trace!(target: "hyper::client", "a library in full");
}

#[test]
fn levels() {
    let all = ["failed", "odd", "started", "synced", "asked", "a library", "a library in full"];
    for (flags, count) in [
        (&["v=0"][..], 3),
        (&["v=3"], 3),
        (&["v=4"], 4),
        (&["v=5"], 4),
        (&["v=6"], 5),
        (&["v=7"], 5),
        (&["v=8"], 6),
        (&["v=10"], 7),
        (&["vmodule=other=9,test*=4"], 4),
        (&["vmodule=tests=6,tests=9"], 5),
        (&["v=4", "vmodule=tests=1"], 4),
    ] {
        let (out, err) = heard_by(flags, |_| say_all());
        assert_eq!((out.as_str(), messages(&err)), ("", all[..count].to_vec()), "{flags:?}");
    }
}

#[test]
fn levels_change_while_running() {
    let (_, err) = heard_by(&["v=0"], |log| {
        tracing::debug!("no");
        log.set_verbosity(4);
        tracing::debug!("by hand");
        log.configure(&logging(&["v=0"]));
        tracing::debug!("nothing was reconfigured");
        log.configure(&logging(&["v=0", "log-flush-frequency=9s"]));
        tracing::debug!("nor was the level");
        log.configure(&logging(&["v=1"]));
        tracing::debug!("no");
        log.configure(&logging(&["v=1", "vmodule=tests=4"]));
        tracing::debug!("by file");
    });
    assert_eq!(messages(&err), ["by hand", "nothing was reconfigured", "nor was the level", "by file"]);
}

#[test]
fn klog_text() {
    let (_, err) = heard_by(&[], |_| say_all());
    let lines: Vec<&str> = err.lines().collect();
    let tail = |line: usize| lines[line].split_once("] ").unwrap().1;
    assert!(lines[0].starts_with('E') && lines[1].starts_with('W') && lines[2].starts_with('I'), "{err}");
    assert!(lines[0].contains(" tests.rs:"), "{err}");
    assert_eq!(tail(0), r#""failed" service="default/a" err="no route""#);
    assert_eq!(tail(1), r#""odd" n=1"#);
    assert_eq!(tail(2), r#""started" full=true name="x \"y\"\n""#);
    let head: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!((head[0].len(), head[1].len()), ("E1115".len(), "23:59:59.123456".len()), "{err}");
    assert_eq!(head[2], std::process::id().to_string());
}

#[test]
fn json_objects() {
    let (_, err) = heard_by(&["logging-format=json", "v=4"], |_| say_all());
    let lines: Vec<&str> = err.lines().collect();
    let tail = |line: usize| lines[line].split_once(",\"msg\":").unwrap().1;
    for line in &lines {
        let (stamp, rest) = line.strip_prefix("{\"ts\":").unwrap().split_once(',').unwrap();
        assert!(stamp.parse::<f64>().unwrap() > 1.7e12, "{line}");
        assert!(rest.starts_with("\"caller\":\"logging/tests.rs:"), "{line}");
        serde_saphyr::from_str::<BTreeMap<String, IgnoredAny>>(line).unwrap();
    }
    assert_eq!(tail(0), r#""failed","service":"default/a","err":"no route"}"#);
    assert_eq!(tail(1), r#""odd","v":0,"severity":"warning","n":1}"#);
    assert_eq!(tail(2), r#""started","v":0,"full":true,"name":"x \"y\"\n"}"#);
    assert_eq!(tail(3), r#""synced","v":4}"#);
}

#[test]
fn streams_apart() {
    let (out, err) = heard_by(&["log-text-split-stream=true"], |_| say_all());
    assert_eq!((messages(&out), messages(&err)), (vec!["started"], vec!["failed", "odd"]));
    let (out, err) = heard_by(&["logging-format=json", "log-json-split-stream=true"], |_| say_all());
    assert_eq!((out.lines().count(), err.lines().count()), (2, 1), "a warning is no error in JSON");
    let (out, err) = heard_by(&["logging-format=json", "log-text-split-stream=true"], |_| say_all());
    assert_eq!((out.lines().count(), err.lines().count()), (0, 3), "the options of the other format");
}

#[test]
fn information_is_collected_and_errors_are_not() {
    let flags = ["log-text-split-stream=true", "log-text-info-buffer-size=1Ki"];
    let (out, err) = heard_by(&flags, |_| say_all());
    assert_eq!((messages(&out).len(), messages(&err).len()), (0, 2));
    let (out, _) = heard_by(&flags, |log| {
        say_all();
        log.flush(Instant::now());
    });
    assert_eq!(messages(&out), ["started"]);
    let (out, _) = heard_by(&flags, |_| (0..100).for_each(|_| say_all()));
    assert!((1..100).contains(&messages(&out).len()), "written when it is full, by whole lines");
    assert!(out.ends_with('\n'));
    let (out, _) = heard_by(&["log-text-info-buffer-size=1Ki", "log-text-split-stream=false"], |_| say_all());
    assert_eq!(out, "", "one stream is never collected");
}

#[test]
fn what_is_collected_is_written_in_time() {
    let out = Reader::open();
    let log = Arc::new(Log::new(Sink::new(out.clone(), Reader::open())));
    sink::attend(log.sink());
    log.configure(&logging(&[
        "log-text-split-stream=true",
        "log-text-info-buffer-size=1Mi",
        "log-flush-frequency=10ms",
    ]));
    listen(&log, say_all);
    let deadline = Instant::now() + Duration::from_secs(10);
    while messages(&out.text()).is_empty() {
        assert!(Instant::now() < deadline, "never written");
        std::thread::yield_now();
    }
}

/// Nothing waits for a reader, no line is cut, and lost lines are reported.
#[test]
fn a_reader_that_stalls() {
    let (reader, line) = (Reader::default(), [b'x'; 999].into_iter().chain([b'\n']).collect::<Vec<u8>>());
    let mut outlet = Outlet::new(reader.clone());
    reader.take(1500);
    (0..2000).for_each(|_| outlet.push(&line));
    assert!(outlet.is_stuck() && outlet.confess().is_none());
    reader.take(usize::MAX);
    outlet.flush();
    let lost = outlet.confess().unwrap();
    assert!((900..1000).contains(&lost), "a megabyte is kept, {lost}");
    assert_eq!(outlet.confess(), None);
    let text = reader.text();
    assert_eq!(text.lines().count() as u64 + lost, 2000);
    assert!(text.lines().all(|line| line.len() == 999));
}

#[test]
fn a_stalled_log_says_so_when_it_is_read_again() {
    let err = Reader::default();
    let log = Arc::new(Log::new(Sink::new(Reader::open(), err.clone())));
    listen(&log, || {
        (0..20_000).for_each(|number| tracing::info!(number, "a line that nobody reads"));
        err.take(usize::MAX);
        tracing::info!("read again");
    });
    let text = err.text();
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert!(last[1].contains("read again") && last[0].contains("Log lines were lost"), "{last:?}");
    let lost: usize = last[0].rsplit('=').next().unwrap().parse().unwrap();
    assert_eq!(text.lines().count() - 2 + lost, 20_000);
}

#[test]
fn verbosity_by_hand() {
    assert_eq!(level("7\n"), Ok(7));
    for wrong in ["", "x", "-1", "1.5", "4294967296", "3000000000"] {
        assert!(level(wrong).unwrap_err().contains("whole number"), "{wrong}");
    }
}
