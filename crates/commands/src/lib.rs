//! `kube-proxy explain` and its like: they ask the agent that runs on this node and print what it says. Without such a word
//! in front, the command line is that of any kube-proxy.

mod archive;
mod arguments;
mod bundle;
mod check;
mod client;
mod diff;
mod explain;
mod kubectl;
pub mod paths;
mod reader;
mod services;
mod table;
pub mod targets;
mod trace;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use arguments::Arguments;
use config::suggest::did_you_mean;
use config::yaml::turns_text;

/// What was asked is forwarded, or in order.
const GOOD: u8 = 0;
const FAILED: u8 = 1;
/// What was asked is not forwarded, or not in order.
const NOT_GOOD: u8 = 3;

/// What a command ends with: the code of the process, or a line that says why there is no answer.
type Outcome = Result<u8, String>;

struct Command {
    name: &'static str,
    usage: &'static str,
    run: fn(Arguments) -> Outcome,
}

const COMMANDS: [Command; 6] = [
    Command { name: "bundle", usage: bundle::USAGE, run: bundle::run },
    Command { name: "check", usage: check::USAGE, run: check::run },
    Command { name: "diff", usage: diff::USAGE, run: diff::run },
    Command { name: "explain", usage: explain::USAGE, run: explain::run },
    Command { name: "services", usage: services::USAGE, run: services::run },
    Command { name: "trace", usage: trace::USAGE, run: trace::run },
];

/// Words that are read with the flags.
const ELSEWHERE: [&str; 2] = ["completion", "demo"];

/// The name by which kubectl calls this program as a plugin.
const PLUGIN: &str = "kubectl-pointsman";

/// Do what the first word asks for, or the plugin if that is the program's name; `None` if it is no command.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next()?;
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let (name, outcome) = if Path::new(&program).file_name().is_some_and(|name| name == PLUGIN) {
        ("kubectl pointsman: ".to_owned(), kubectl::run(arguments.collect()))
    } else {
        // Flags are those of any kube-proxy.
        let is_word = |first: &String| {
            !first.is_empty() && !first.starts_with('-') && !ELSEWHERE.contains(&first.as_str())
        };
        let first = arguments.next().filter(is_word)?;
        match is_command(&first) {
            true => (format!("kube-proxy: {first}: "), run_here(&first, arguments.collect())),
            false => ("kube-proxy: ".to_owned(), Err(unknown_command(&first))),
        }
    };
    Some(match outcome {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            to_stderr(&format!("{name}{problem}"));
            ExitCode::from(FAILED)
        }
    })
}

fn is_command(word: &str) -> bool {
    COMMANDS.iter().any(|command| command.name == word)
}

fn unknown_command(word: &str) -> String {
    let mut names: Vec<&str> = COMMANDS.iter().map(|command| command.name).chain(["completion"]).collect();
    names.sort_unstable();
    let all = names.join(", ");
    let guess = did_you_mean("", word, names.into_iter());
    let more = if guess.is_empty() { ", see also --help" } else { "" };
    format!("there is no command {word:?}; the commands are {all}{guess}{more}")
}

fn run_here(name: &str, words: Vec<String>) -> Outcome {
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Err(unknown_command(name));
    };
    let arguments = Arguments::read(words.into_iter(), command.usage)?;
    if arguments.help {
        print(command.usage)?;
        return Ok(GOOD);
    }
    (command.run)(arguments)
}

/// For people. Returns whether somebody still reads.
fn print(text: &str) -> Result<bool, String> {
    print_document(&harmless(text, true))
}

/// For programs, as it is.
fn print_document(text: &str) -> Result<bool, String> {
    reader::write(text)
}

/// A document for programs, which people may look at too.
fn json_text(document: &serde_json::Value) -> String {
    escaped(format!("{document:#}\n"))
}

/// JSON says the same with escapes for what a terminal would follow. It has escapes for C0 already, and what is left is in
/// strings alone.
fn escaped(json: String) -> String {
    if !json.contains(|c| is_harmful(c, true)) {
        return json;
    }
    let escaped = |c: char| match is_harmful(c, true) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    json.chars().map(escaped).collect()
}

/// It moves the cursor, sets colours or turns the direction of the text.
fn is_harmful(c: char, keeps_lines: bool) -> bool {
    turns_text(c) || c.is_control() && !(keeps_lines && matches!(c, '\n' | '\t'))
}

/// Names come from objects that anybody may have written: nothing in them may move the cursor, set colours or turn the
/// direction of the text. Where lines are not ours, they may not begin one either.
fn harmless(text: &str, keeps_lines: bool) -> Cow<'_, str> {
    let is_harmful = |c: char| is_harmful(c, keeps_lines);
    if !text.contains(is_harmful) {
        return text.into();
    }
    let escaped = |c: char| if is_harmful(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect::<String>().into()
}

fn complain(line: &str) {
    to_stderr(&format!("kube-proxy: {line}"));
}

/// For people, not for the log. Who closed the pipe wants to hear no more: `eprintln!` would panic.
pub fn to_stderr(line: &str) {
    let _ = io::stderr().write_all(format!("{}\n", harmless(line, true)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_not_reach_the_terminal_as_it_is() {
        assert_eq!(harmless("a\u{1b}[31mred\u{202e}\n", true), "a\\u{1b}[31mred\\u{202e}\n");
        assert_eq!(harmless("x\ny\r", false), "x\\ny\\r");
        let name = serde_json::json!({ "name": "a\u{1b}\u{7f}\u{9b}\u{202e}é" });
        let text = json_text(&name);
        assert_eq!(text, "{\n  \"name\": \"a\\u001b\\u007f\\u009b\\u202eé\"\n}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), name);
        assert!(matches!(harmless("default/web\n", true), Cow::Borrowed(_)));
    }
}
