//! What an operator reads when the tools cannot do their work.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use kernel::iptables::{Tables, ToolError, Variant};

use kernel::netns::privileged_test;

use crate::place::{Place, in_place};

const SCRIPT: &str = "*nat\n:A - [0:0]\nCOMMIT\n";

/// Why nothing could be chosen.
fn refusal(place: &Place) -> String {
    place.own_toolbox().choose().expect_err("a refusal").to_string()
}

#[test]
fn missing_tools_are_named_with_what_to_do() {
    privileged_test(|| {
        in_place(|place| {
            assert_eq!(
                refusal(place),
                "iptables, iptables-save and iptables-restore are not installed: install iptables 1.6.2 or later, \
             or use the image that holds them"
            );
        });
    });
}

#[test]
fn an_old_one_is_named_with_its_version() {
    privileged_test(|| {
        in_place(|place| {
            place.fake("iptables", "echo iptables v1.4.21");
            let tool = place.programs().join("iptables");
            let expected = "is of version 1.4.21; 1.6.2 or later is needed, for --wait of iptables-restore";
            assert_eq!(refusal(place), format!("{} {expected}", tool.display()));
        });
    });
}

#[test]
fn something_else_of_that_name_is_no_iptables() {
    privileged_test(|| {
        in_place(|place| {
            place.fake("iptables", "echo hello");
            assert!(refusal(place).ends_with("its version output is \"hello\""), "{}", refusal(place));
            fs::write(place.programs().join("iptables"), "no program").unwrap();
            assert!(refusal(place).contains("iptables cannot be run: "), "{}", refusal(place));
        });
    });
}

#[test]
fn a_held_lock_is_waited_for_and_named() {
    privileged_test(|| {
        in_place(|place| {
            let mut toolbox = place.toolbox();
            toolbox.terms.lock_seconds = 1;
            let mut tools = toolbox.of(Variant::Legacy, false).unwrap();
            let lock = File::create(place.lock_file()).unwrap();
            lock.lock().unwrap();
            let error = tools.restore(SCRIPT).expect_err("the lock is held");
            assert!(matches!(error, ToolError::Locked { seconds: 1, .. }), "{error:?}");
            let file = place.lock_file();
            let words = format!(
                "waited 1 s for the lock of the tables, {}, which another program holds",
                file.display()
            );
            assert!(error.to_string().contains(&words), "{error}");
            // It is no reason to do without the tools.
            toolbox.of(Variant::Legacy, false).unwrap();
            lock.unlock().unwrap();
            tools.restore(SCRIPT).unwrap();
        });
    });
}

#[test]
fn a_lock_that_cannot_be_opened_is_named() {
    privileged_test(|| {
        in_place(|place| {
            let mut toolbox = place.toolbox();
            toolbox.terms.lock_file = Some(place.programs().join("missing/lock"));
            let error = toolbox.of(Variant::Legacy, false).expect_err("no lock").to_string();
            assert!(
                error.contains("missing/lock: No such file or directory; mount the host's file there"),
                "{error}"
            );
        });
    });
}

#[test]
fn one_that_hangs_is_killed() {
    privileged_test(|| {
        in_place(|place| {
            place.fake(
                "iptables",
                "case $* in --version) echo 'iptables v1.8.9 (legacy)';; --noflush*) exec sleep 600;; esac",
            );
            let mut toolbox = place.own_toolbox();
            toolbox.terms.limit = Duration::from_secs(2);
            let mut tools = toolbox.of(Variant::Legacy, false).unwrap();
            let started = Instant::now();
            let error = tools.restore(SCRIPT).expect_err("it hangs");
            assert!(started.elapsed() < Duration::from_secs(60));
            assert!(error.to_string().ends_with("did not end within 2s and was killed"), "{error}");
        });
    });
}
