//! `scripts/test-report` counts what it is shown.

use std::io::Write;
use std::process::{Command, Stdio};

fn report(log: &str) -> (bool, String) {
    let script = checks::root().join("scripts/test-report");
    let mut child =
        Command::new(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash is needed");
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

fn last(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

const PASSING: &str = "\
==> cargo test
     Running unittests src/lib.rs (target/debug/deps/model-0123abcd)
running 3 tests
test a ... ok
test b ... ok
test c ... ignored, too long
successes:
---- a stdout ----
SKIPPED: no nft here
SKIPPED: nor there
---- b stdout ----
chatter
successes:
    a
    b
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

#[test]
fn skipped_tests_are_not_counted_as_passed() {
    let (good, text) = report(PASSING);
    assert!(good, "{text}");
    assert_eq!(last(&text), "1 passed, 0 failed, 2 skipped");
    assert!(text.contains("\nSKIPPED: no nft here (a)\nSKIPPED: nor there (a)\n"), "{text}");
    assert!(!text.contains("chatter"), "{text}");
}

#[test]
fn sections_add_up_and_a_harness_of_its_own_counts_for_itself() {
    let log = format!(
        "{PASSING}     Running main.rs (target/debug/deps/scenarios-0123abcd)\n\
         SKIPPED: no SCTP in this kernel\n7 passed, 0 failed, 1 skipped\n"
    );
    let (good, text) = report(&log);
    assert!(good, "{text}");
    assert_eq!(last(&text), "8 passed, 0 failed, 3 skipped");
    assert!(text.contains("\nSKIPPED: no SCTP in this kernel\n"), "{text}");
}

#[test]
fn a_failure_is_shown_and_fails_the_run() {
    let log = "     Running tests/x.rs (target/debug/deps/x-0123abcd)\n\
               test a ... FAILED\ntest b ... ok\nsuccesses:\n---- b stdout ----\nchatter\nsuccesses:\n    b\n\
               failures:\n---- a stdout ----\nSKIPPED: half of it\nassertion failed\nfailures:\n    a\n\
               test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n\
               error: test failed, to rerun pass `--test x`\nSTEP FAILED: cargo test\n";
    let (good, text) = report(log);
    assert!(!good);
    assert_eq!(last(&text), "1 passed, 1 failed, 0 skipped");
    assert!(text.contains("assertion failed") && !text.contains("chatter"), "{text}");
}

/// An ordinary user's tests run in a second process, whose own result is no other test.
#[test]
fn results_inside_a_tests_output_are_not_counted() {
    let log = "     Running tests/x.rs (target/debug/deps/x-0123abcd)\n\
               successes:\n---- a stdout ----\nrunning 1 test\ntest a ... SKIPPED: not here\nok\n\
               test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n\
               test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
    let (good, text) = report(log);
    assert!(good, "{text}");
    assert_eq!(last(&text), "1 passed, 0 failed, 1 skipped");
}

#[test]
fn what_never_came_to_a_result_has_failed() {
    let died = "     Running tests/x.rs (target/debug/deps/x-0123abcd)\nrunning 1 test\nout of memory\n\
                error: test failed, to rerun pass `--test x`\n";
    let (good, text) = report(died);
    assert!(!good && last(&text) == "0 passed, 1 failed, 0 skipped", "{text}");
    assert!(text.contains("out of memory"), "{text}");
    let (good, text) =
        report("==> cargo test --no-run\nerror: no such crate\nSTEP FAILED: cargo test --no-run\n");
    assert!(!good && last(&text) == "0 passed, 1 failed, 0 skipped", "{text}");
    let (good, text) = report(&format!("STEP FAILED: cargo fmt --check\n{PASSING}"));
    assert!(!good && last(&text) == "1 passed, 1 failed, 2 skipped", "{text}");
}

#[test]
fn a_test_without_a_harness_speaks_by_its_exit_code() {
    let log = "     Running tests/x.rs (target/debug/deps/x-0123abcd)\nall is well\n\
               \x20    Running tests/y.rs (target/debug/deps/y-0123abcd)\nSKIPPED: not here\n";
    let (good, text) = report(log);
    assert!(good, "{text}");
    assert_eq!(last(&text), "1 passed, 0 failed, 1 skipped");
}
