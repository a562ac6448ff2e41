//! `kube-proxy explain`: what becomes of a packet, and why.

use serde_json::Value;

use crate::arguments::Arguments;
use crate::paths::EXPLAIN;
use crate::targets;
use crate::{FAILED, GOOD, NOT_GOOD, Outcome, client, complain, harmless, json_text, print, print_document};

pub(super) const USAGE: &str = "\
Explain what happens to a packet: which service has the address, what the client counts as, which endpoints are used and
why not the others, whether the source is kept, and whether the kernel holds what was planned.

Usage:
  kube-proxy explain [tcp:|udp:|sctp:]ADDRESS:PORT [flags]
  kube-proxy explain [tcp:|udp:|sctp:]node:PORT [flags]       a node port of this node
  kube-proxy explain service NAMESPACE/NAME[:PORT] [flags]    all addresses of a service; PORT is a name or a number,
                                                              NAME alone is default/NAME

Flags:
  --from ADDRESS                   the client; without it, one of each kind
  -o, --output text|json [text]
  --agent ADDRESS:PORT             where the agent serves its metrics; else as --config or
  --config FILE                    --metrics-bind-address of the agent say [127.0.0.1:10249]
  --metrics-bind-address ADDRESS

Exit code: 0 if the packet is forwarded (without --from: for any client that loadBalancerSourceRanges
let in), 3 if it is not, 1 if there is no answer.
";

pub(super) fn run(arguments: Arguments) -> Outcome {
    arguments.only(&["from", "output"])?;
    let service = arguments.words.get(1).map(|word| targets::with_namespace(word)).unwrap_or_default();
    let mut parameters: Vec<(&str, &str)> = Vec::new();
    // Read here too, so that a mistake is found whether an agent runs or not.
    match arguments.words.as_slice() {
        [word, _] if word == "service" => {
            targets::read_service(&service)?;
            parameters.push(("service", &service));
        }
        [word] if word == "service" => {
            return Err("which service? Write NAME[:PORT] or NAMESPACE/NAME[:PORT]".to_owned());
        }
        [to] => {
            targets::read_packet(to)?;
            parameters.push(("to", to));
        }
        [] => {
            return Err(
                "which packet? Name an address such as 10.96.0.10:80, or service default/web; see --help"
                    .to_owned(),
            );
        }
        [word, name, ..] if word != "service" && targets::read_service(name).is_ok() => {
            return Err(format!("to explain a service, write: explain service {name}"));
        }
        [word, _, extra, ..] if word == "service" => {
            return Err(format!("only one service is allowed; remove {extra:?}; see --help"));
        }
        [_, extra, ..] => return Err(format!("one thing at a time, not {extra:?} too; see --help")),
    }
    if let Some(from) = arguments.value("from") {
        targets::read_client(from).map_err(|problem| format!("--from: {problem}"))?;
        parameters.push(("from", from));
    }
    let is_json = match arguments.value("output") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => return Err(format!("-o: {other:?} is not one of text and json")),
    };
    let mut document = client::ask(arguments.agent()?, EXPLAIN, &parameters)?;
    let text = document.as_object_mut().and_then(|fields| fields.remove("text"));
    if let Some(problem) = document["problem"].as_str() {
        complain(&format!("explain: {}", harmless(problem, false)));
        return Ok(FAILED);
    }
    match is_json {
        true => print_document(&json_text(&document)),
        false => print(text.as_ref().and_then(Value::as_str).unwrap_or_default()),
    }?;
    Ok(if document["verdict"] == "forward" { GOOD } else { NOT_GOOD })
}
