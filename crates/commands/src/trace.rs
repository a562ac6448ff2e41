//! `kube-proxy trace`: connections as they happen, and what becomes of each.

use std::ops::ControlFlow;

use serde_json::Value;

use crate::arguments::Arguments;
use crate::paths::TRACE;
use crate::targets;
use crate::{GOOD, NOT_GOOD, Outcome, client, complain, escaped, harmless, print, print_document, reader};

pub(super) const USAGE: &str = "\
Watch new connections to an address as they pass through the kernel of this node, a line each: the client, the address, the
endpoint that was chosen, what the client counts as, and the verdict with its reason.

Usage:
  kube-proxy trace [tcp:|udp:|sctp:]ADDRESS[:PORT] [flags]    without a protocol or port, any

Flags:
  --from ADDRESS                   only connections of this client
  --for DURATION [10s]             such as 30s or 5m; at most 10m
  -o, --output text|json [text]    json: a document per line
  --ends-with-input                end when standard input is closed
  --agent ADDRESS:PORT             where the agent serves its metrics; else as --config or
  --config FILE                    --metrics-bind-address of the agent say [127.0.0.1:10249]
  --metrics-bind-address ADDRESS

Exit code: 0 if all connections that were seen are forwarded, 3 if one is not, 1 if there is no answer.
";

pub(super) fn run(arguments: Arguments) -> Outcome {
    arguments.only(&["from", "for", "output", "ends-with-input"])?;
    let to = match arguments.words.as_slice() {
        [to] => to.as_str(),
        [] => return Err("which connections? Name an address such as 10.96.0.10:80; see --help".to_owned()),
        [_, extra, ..] => return Err(format!("only one address is allowed; remove {extra:?}; see --help")),
    };
    // Read here too, so that a mistake is found whether an agent runs or not.
    targets::read_traced(to)?;
    let mut parameters = vec![("to", to)];
    if let Some(from) = arguments.value("from") {
        targets::read_client(from).map_err(|problem| format!("--from: {problem}"))?;
        parameters.push(("from", from));
    }
    let mut lasts = targets::USUAL_TRACE;
    if let Some(text) = arguments.value("for") {
        lasts = targets::read_lasting(text).map_err(|problem| format!("--for: {problem}"))?;
        parameters.push(("for", text));
    }
    let is_json = match arguments.value("output") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => return Err(format!("-o: {other:?} is not one of text and json")),
    };
    let agent = arguments.agent()?;
    reader::end_without(arguments.has("ends-with-input"))?;
    let (mut code, mut printed) = (GOOD, Ok(true));
    client::follow(agent, TRACE, &parameters, lasts, |mut line| {
        if is_json {
            line.as_object_mut().map(|fields| fields.remove("text"));
            printed = print_document(&escaped(format!("{line}\n")));
        } else {
            printed = tell(&line, to, lasts.as_secs_f64());
        }
        if line["verdict"].is_string() && line["verdict"] != "forward" {
            code = NOT_GOOD;
        }
        match printed {
            Ok(true) if !line["end"].is_object() => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })?;
    printed.map(|_| code)
}

/// Connections to stdout; what is said about them to stderr, so that a pipe gets connections alone.
fn tell(line: &Value, to: &str, seconds: f64) -> Result<bool, String> {
    if let Some(text) = line["text"].as_str() {
        return print(&format!("{}\n", harmless(text, false)));
    } else if line["tracing"].is_object() {
        complain(&format!("trace: watching new connections to {to} for {seconds} s"));
    } else if let Some(end) = line["end"].as_object() {
        for note in end["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            complain(&format!("trace: {}", harmless(note, false)));
        }
        match end["connections"].as_u64() {
            Some(0) => complain("trace: no new connection was seen; did the client reach this node?"),
            Some(count) => complain(&format!("trace: {count} new connections were seen")),
            None => {}
        }
    }
    Ok(true)
}
