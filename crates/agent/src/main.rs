//! `kube-proxy`: parse, then run. Errors are one line on stderr and exit code 1.

use std::process::ExitCode;

use agent::flags::{self, Command};

fn main() -> ExitCode {
    kernel::memory::stay_small();
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            #[expect(clippy::print_stderr, reason = "the last word of a failed start; logging may not be up")]
            {
                eprintln!("kube-proxy: {message}");
            }
            ExitCode::FAILURE
        }
    }
}

fn dispatch() -> Result<(), String> {
    match flags::parse(std::env::args_os().skip(1))? {
        Command::Help => {
            print!("{}", flags::help());
            Ok(())
        }
        Command::Version => {
            println!("Pointsman {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Command::Demo(invocation) => agent::demo::run(invocation).map_err(|error| error.to_string()),
        Command::Run(options) => {
            agent::init_logging(options.verbosity);
            agent::run(*options).map_err(|error| error.to_string())
        }
    }
}
