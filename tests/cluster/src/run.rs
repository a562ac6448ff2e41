//! Programs that are run to their end, and what they said.

use std::io::Write;
use std::process::{Command, Stdio};

/// What it printed; its complaints if it fails.
pub fn output(command: &mut Command) -> Result<String, String> {
    with_input(command, "")
}

/// The same with something to read.
pub fn with_input(command: &mut Command, input: &str) -> Result<String, String> {
    let name = spell(command);
    let fail = |e: std::io::Error| format!("{name}: {e}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end without reading everything; then its status says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(fail)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{name}: {}: {}", output.status, text(&output.stderr)))
}

/// As a person would type it, without the folder of the program.
fn spell(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_failed_and_why() {
        let error = output(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        assert_eq!(error, "sh -c echo no >&2; exit 3: exit status: 3: no");
        assert_eq!(with_input(&mut Command::new("cat"), "text\n").unwrap(), "text");
    }
}
