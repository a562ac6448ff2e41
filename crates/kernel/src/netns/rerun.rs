//! Tests that need namespaces, for any user: root runs them in place, an ordinary user in a second
//! process of the same test binary inside a user namespace, because the harness has threads already.

use std::process::Command;

use super::{Denied, Namespace, enter_user_namespace, privilege};
use crate::sysctl;

/// Run the body of a `#[test]` where it may make namespaces. Where the machine refuses, print a line that
/// begins with `SKIPPED: ` and return.
///
/// ```no_run
/// #[test]
/// fn pods_reach_each_other() {
///     kernel::netns::privileged_test(|| { /* ... */ })
/// }
/// ```
///
/// # Panics
/// If the test fails in the second process.
#[allow(clippy::panic)]
pub fn privileged_test<F: FnOnce()>(body: F) {
    if privilege::capable() {
        match usable() {
            Ok(()) => body(),
            Err(why) => println!("SKIPPED: {why}"),
        }
        return;
    }
    match second_process(test_name::<F>()) {
        Ok(output) => print!("{output}"),
        Err(Failure::Skip(why)) => println!("SKIPPED: {why}"),
        Err(Failure::Failed(output)) => panic!("failed in a user namespace:\n{output}"),
    }
}

/// Holding the capabilities is not enough in a container that forbids the calls or mounts /proc/sys read-only.
fn usable() -> Result<(), String> {
    let namespace = Namespace::new().map_err(|e| e.to_string())?;
    let set = namespace.try_run(|| sysctl::write("net/ipv4/ip_forward", 0)).map_err(|e| e.to_string())?;
    set.map_err(|e| e.to_string())
}

enum Failure {
    Skip(Denied),
    Failed(String),
}

/// A closure's type name is `crate::path::test::{{closure}}`; the harness leaves out the crate.
fn test_name<F>() -> &'static str {
    let full = std::any::type_name::<F>();
    let path = full.split_once("::").map_or(full, |(_, path)| path);
    path.split("::{{").next().unwrap_or(path)
}

fn second_process(test: &str) -> Result<String, Failure> {
    let binary = std::env::current_exe()
        .map_err(|e| Failure::Failed(format!("finding the running test binary: {e}")))?;
    let mut command = Command::new(binary);
    command.args([test, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
    enter_user_namespace(&mut command);
    let output = command.output().map_err(|e| {
        Failure::Skip(Denied::new(format!("not root, and this machine refuses user namespaces: {e}")))
    })?;
    let text = [output.stdout, output.stderr].map(|s| String::from_utf8_lossy(&s).into_owned()).concat();
    // A name that matches no test also exits with 0.
    if output.status.success() && text.contains("1 passed") { Ok(text) } else { Err(Failure::Failed(text)) }
}
