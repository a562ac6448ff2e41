//! `kube-proxy diff`: what the kernel holds against what the agent wrote.

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::paths::DIFF;
use crate::targets;
use crate::{GOOD, NOT_GOOD, Outcome, client, harmless, print, print_document};

pub(super) const USAGE: &str = "\
Compare what the kernel holds with what the agent wrote there, service by service. Nothing is changed.

Usage:
  kube-proxy diff [NAMESPACE/NAME] [flags]

Flags:
  -o, --output text|json [text]
  --agent ADDRESS:PORT             where the agent serves its metrics; else as --config or
  --config FILE                    --metrics-bind-address of the agent say [127.0.0.1:10249]
  --metrics-bind-address ADDRESS

Exit code: 0 if they are equal, 3 if they differ, 1 if there is no answer.
";

pub(super) fn run(arguments: Arguments) -> Outcome {
    arguments.only(&["output"])?;
    let service = match arguments.words.as_slice() {
        [] => None,
        [name] if !name.contains(':') && targets::read_service(name).is_ok() => Some(name.as_str()),
        [name] => {
            return Err(format!("{name:?} is not a service; expected NAMESPACE/NAME, such as default/web"));
        }
        [_, extra, ..] => return Err(format!("one service at a time, not {extra:?} too; see --help")),
    };
    let is_json = match arguments.value("output") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => return Err(format!("-o: {other:?} is not one of text and json")),
    };
    let agent = arguments.agent()?;
    let (mut compared, mut differences) = (0, Vec::new());
    let mut next = String::new();
    loop {
        let mut parameters = vec![("continue", next.as_str())];
        parameters.extend(service.map(|service| ("service", service)));
        let mut page = client::ask(agent, DIFF, &parameters)?;
        compared += page["compared"].as_u64().unwrap_or_default();
        differences.extend(page["differences"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["continue"].as_str() {
            Some(last) => next = last.to_owned(),
            None => break,
        }
    }
    if let (0, Some(service)) = (compared, service) {
        return Err(format!("service {service} has no rules here; see kube-proxy services"));
    }
    match is_json {
        true => {
            print_document(&format!("{:#}\n", json!({ "compared": compared, "differences": differences })))
        }
        false => print(&text(compared, &differences)),
    }
    Ok(if differences.is_empty() { GOOD } else { NOT_GOOD })
}

fn text(compared: u64, differences: &[Value]) -> String {
    let word = |value: &Value| harmless(value.as_str().unwrap_or_default(), false).into_owned();
    let mut text = String::new();
    for one in differences {
        let service = one["service"].is_string().then(|| format!("{}: ", word(&one["service"])));
        let service = service.unwrap_or_default();
        let (place, expected, found) = (word(&one["place"]), word(&one["expected"]), word(&one["found"]));
        text.push_str(&format!("{service}{place}: expected {expected}, found {found}\n"));
    }
    let outcome = match differences.len() {
        0 if compared == 0 => {
            return "nothing compared: no service has rules that can be read back\n".to_owned();
        }
        0 => "no difference".to_owned(),
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    };
    text.push_str(&format!("{compared} places compared: {outcome}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_their_service() {
        let one = json!({ "service": "default/web", "place": "ip kube-proxy endpoints { 1 }", "expected": "a", "found": "nothing" });
        let wanted = "default/web: ip kube-proxy endpoints { 1 }: expected a, found nothing\n7 places compared: 1 difference\n";
        assert_eq!(text(7, &[one]), wanted);
        assert_eq!(text(7, &[]), "7 places compared: no difference\n");
        assert!(text(0, &[]).starts_with("nothing compared"));
    }
}
