//! `kube-proxy explain` and its like: they ask the agent that runs on this node and print what it says. Without such a word
//! in front, the command line is that of any kube-proxy.

mod archive;
mod arguments;
mod bundle;
mod check;
mod client;
mod diff;
mod explain;
pub mod paths;
mod services;
mod table;
pub mod targets;

use std::ffi::OsString;
use std::process::ExitCode;

use arguments::Arguments;

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

const COMMANDS: [Command; 5] = [
    Command { name: "bundle", usage: bundle::USAGE, run: bundle::run },
    Command { name: "check", usage: check::USAGE, run: check::run },
    Command { name: "diff", usage: diff::USAGE, run: diff::run },
    Command { name: "explain", usage: explain::USAGE, run: explain::run },
    Command { name: "services", usage: services::USAGE, run: services::run },
];

/// Do what the first word asks for; `None` if it is no command.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    let first = arguments.next()?;
    let command = COMMANDS.iter().find(|command| command.name == first)?;
    let outcome = match Arguments::read(arguments) {
        Ok(arguments) if arguments.help => {
            print(command.usage);
            Ok(GOOD)
        }
        Ok(arguments) => (command.run)(arguments),
        Err(problem) => Err(problem),
    };
    Some(match outcome {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            complain(&format!("{}: {problem}", command.name));
            ExitCode::from(FAILED)
        }
    })
}

/// The reader that closed the pipe has read enough.
fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn complain(line: &str) {
    #[expect(clippy::print_stderr, reason = "commands speak to people, not to the log")]
    {
        eprintln!("kube-proxy: {line}");
    }
}
