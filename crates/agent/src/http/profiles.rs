//! The pages under `/debug/pprof/`.

use std::time::Duration;

use cluster::apiserver::masked;
use hyper::StatusCode;
use kernel::profile::cpu::Denied;
use prost::Message;
use tokio::sync::Semaphore;

use telemetry::profiling::collect::{self, Memory, Recording};
use telemetry::profiling::symbols::Symbols;
use telemetry::profiling::{profile, report};

use web::answer::{self, Answer, text};

/// Where the pages are.
pub(crate) const PREFIX: &str = "/debug/pprof/";

const DEFAULT_SECONDS: u64 = 30;
/// A forgotten profile must end at some time.
const MOST_SECONDS: u64 = 300;

const INDEX: &str = "\
Profiles of this kube-proxy. Fetch one with: go tool pprof http://HOST:PORT/debug/pprof/NAME
or, without Go, as a table with: curl 'http://HOST:PORT/debug/pprof/NAME?debug=1'

  profile   processor time of the next ?seconds=N (30; at most 300), by function and thread
  heap      memory that is in use, by the function that allocated it
  allocs    memory allocated since profiling was enabled, also what was freed again
  cmdline   the command line
  symbol    answers Go's question for symbols; names are in the profiles already

Go's goroutine, threadcreate, block, mutex and trace are about Go's own runtime. There is none here.
";

static ONE_MEMORY_PROFILE: Semaphore = Semaphore::const_new(1);

/// Profiles of what only Go programs have.
pub(crate) const GO_ONLY: [&str; 5] = ["goroutine", "threadcreate", "block", "mutex", "trace"];

/// Answer a request for a page under [`PREFIX`]. Lasts as long as a profile does; dropping it ends the profile.
pub(crate) async fn respond(path: &str, query: Option<&str>) -> Answer {
    let name = path.strip_prefix(PREFIX).unwrap_or(path).trim_matches('/');
    let query = query.unwrap_or_default();
    match name {
        "" => text(StatusCode::OK, INDEX.to_owned()),
        "profile" => match seconds(query) {
            Ok(length) => cpu(length, query).await,
            Err(why) => text(StatusCode::BAD_REQUEST, why),
        },
        "heap" => memory(Memory::Live, query).await,
        "allocs" => memory(Memory::Allocated, query).await,
        "cmdline" => text(StatusCode::OK, command_line()),
        "symbol" => text(StatusCode::OK, "num_symbols: 1\n".to_owned()),
        name if GO_ONLY.contains(&name) => {
            let why = format!(
                "{PREFIX}{name} describes the runtime of Go programs; this kube-proxy is not one. \
                 {PREFIX} lists the available profiles.\n"
            );
            text(StatusCode::NOT_IMPLEMENTED, why)
        }
        _ => text(
            StatusCode::NOT_FOUND,
            format!("There is no profile {name:?}; {PREFIX} lists the available profiles.\n"),
        ),
    }
}

async fn cpu(length: Duration, query: &str) -> Answer {
    match collect::cpu(length).await {
        Ok(recording) => finish("profile", recording, query).await,
        Err(denied @ Denied::Busy) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{denied}\n")),
        Err(denied @ Denied::Architecture) => text(StatusCode::NOT_IMPLEMENTED, format!("{denied}\n")),
        Err(denied) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{denied}\n")),
    }
}

async fn memory(view: Memory, query: &str) -> Answer {
    if value(query, "seconds").is_some() {
        let why = "seconds: this shows the memory of one moment; fetch two and compare them with pprof's -diff_base.\n";
        return text(StatusCode::BAD_REQUEST, why);
    }
    if !kernel::profile::heap::is_sampling() {
        let why = "Allocations are not being sampled: this build cannot walk stacks on this architecture.\n";
        return text(StatusCode::NOT_IMPLEMENTED, why.to_owned());
    }
    // One at a time: many would be many threads that read the symbol table.
    let Ok(_turn) = ONE_MEMORY_PROFILE.try_acquire() else {
        return text(
            StatusCode::SERVICE_UNAVAILABLE,
            "Another memory profile is being written; ask again.\n",
        );
    };
    let name = if view == Memory::Live { "heap" } else { "allocs" };
    finish(name, collect::memory(view), query).await
}

/// Names and format. Reading the symbol table takes some milliseconds, so not on the event loop.
async fn finish(name: &'static str, recording: Recording, query: &str) -> Answer {
    let as_table = value(query, "debug").is_some_and(|level| level != "0");
    let written = tokio::task::spawn_blocking(move || write(recording, as_table)).await;
    match written {
        Ok(bytes) if as_table => text(StatusCode::OK, String::from_utf8_lossy(&bytes).into_owned()),
        Ok(bytes) => download(name, bytes),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the profile: {error}\n")),
    }
}

fn write(recording: Recording, as_table: bool) -> Vec<u8> {
    let symbols = Symbols::find(kernel::profile::loaded_objects(), &profile::addresses(&recording));
    let recording =
        if recording.is_memory { profile::without_containers(recording, &symbols) } else { recording };
    if as_table {
        report::table(&recording, &symbols).into_bytes()
    } else {
        profile::encode(&recording, &symbols).encode_to_vec()
    }
}

fn seconds(query: &str) -> Result<Duration, String> {
    let Some(given) = value(query, "seconds") else { return Ok(Duration::from_secs(DEFAULT_SECONDS)) };
    match given.parse() {
        Ok(seconds @ 1..=MOST_SECONDS) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("seconds={given}: give a whole number from 1 to {MOST_SECONDS}\n")),
    }
}

fn value<'q>(query: &'q str, key: &str) -> Option<&'q str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

/// As Go has it: arguments with a zero between them. Passwords in URLs are left out here too.
fn command_line() -> String {
    let arguments = std::env::args_os().map(|argument| {
        let argument = argument.to_string_lossy();
        if argument.contains("://") { masked(&argument) } else { argument.into_owned() }
    });
    arguments.collect::<Vec<_>>().join("\0")
}

fn download(name: &str, bytes: Vec<u8>) -> Answer {
    let answer = answer::typed(StatusCode::OK, "application/octet-stream", bytes);
    answer::with_header(answer, "content-disposition", &format!("attachment; filename=\"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_bounded() {
        let secs = |query: &str| seconds(query).map(|length| length.as_secs()).ok();
        assert_eq!([secs(""), secs("debug=1"), secs("debug=1&seconds=7")], [Some(30), Some(30), Some(7)]);
        let wrong = ["0", "-1", "301", "soon", "", "1.5", "99999999999999999999"];
        wrong.iter().for_each(|given| assert_eq!(secs(&format!("seconds={given}")), None, "{given}"));
    }
}
