//! Which line goes to which stream. `--write-config-to` with `--healthz-port` says one warning and one information.

use super::*;
use std::io::{Read, Write};

const ALPHA: &str = "--feature-gates=LoggingAlphaOptions=true";

fn said(scratch: &Scratch, flags: &[&str]) -> (String, String) {
    let file = format!("--write-config-to={}", scratch.path("config").display());
    let output = run(kube_proxy().args([&file, "--healthz-port=0"]).args(flags));
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn one_stream_or_two() {
    let scratch = Scratch::new("streams");
    for (flags, out, err) in [
        (&[][..], 0, 2),
        (&["--log-text-split-stream", ALPHA], 1, 1),
        (&["--log-text-split-stream", "--log-text-info-buffer-size=1Mi", ALPHA], 1, 1),
        (&["--logging-format=json"], 0, 2),
        (&["--logging-format=json", "--log-json-split-stream", ALPHA], 2, 0),
        (
            &["--logging-format=json", "--log-json-split-stream", "--log-json-info-buffer-size=64", ALPHA],
            2,
            0,
        ),
    ] {
        let (stdout, stderr) = said(&scratch, flags);
        let counts = (stdout.lines().count(), stderr.lines().count());
        assert_eq!(counts, (out, err), "{flags:?}\n{stdout}\n{stderr}");
    }
    let (out, err) = said(&scratch, &["--log-text-split-stream", ALPHA]);
    assert!(out.starts_with('I') && out.contains("] \"Wrote the configuration\" file="), "{out}");
    assert!(err.starts_with('W') && err.contains("] \"--healthz-port is not written"), "{err}");
    let (_, err) = said(&scratch, &["--logging-format=json"]);
    for line in err.lines() {
        assert!(line.starts_with("{\"ts\":1") && line.contains(",\"v\":0,") && line.ends_with('}'), "{line}");
    }
}

/// A reader of the log that stalls does not stop the agent.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    const PIPE: usize = 65536;
    let scratch = Scratch::new("stalled");
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'.'; PIPE]).unwrap();
    let file = format!("--write-config-to={}", scratch.path("config").display());
    let mut child = kube_proxy().args([&file, "--healthz-port=0"]).stderr(writer).spawn().unwrap();
    assert!(end(&mut child).success());
    assert!(scratch.path("config").exists());
    let mut left = Vec::new();
    reader.read_to_end(&mut left).unwrap();
    assert_eq!(left.len(), PIPE, "a line that does not fit is not torn");
}

/// Nor is a closed pipe a reason to die with a core where an error is said: `kube-proxy check nope 2>&1 | head -c 10`.
#[test]
fn errors_into_a_closed_pipe() {
    for arguments in [&["check", "nope"][..], &["foo"], &["--foo"], &["services", "--agent=127.0.0.1:1"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = kube_proxy().args(arguments).stdout(Stdio::null()).stderr(writer).spawn().unwrap();
        assert_eq!(end(&mut child).code(), Some(1), "{arguments:?}");
    }
}
