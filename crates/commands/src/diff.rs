//! `kube-proxy diff`: what the kernel holds against what the agent wrote.

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::paths::DIFF;
use crate::targets;
use crate::{GOOD, NOT_GOOD, Outcome, client, harmless, json_text, print, print_document};

pub(super) const USAGE: &str = "\
Compare what the kernel holds with what the agent wrote there, service by service. Nothing is changed.

Usage:
  kube-proxy diff [NAME|NAMESPACE/NAME] [flags]

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
        [word] => {
            let name = targets::with_namespace(word);
            if name.contains(':') || targets::read_service(&name).is_err() {
                return Err(format!("{word:?} is not a service; expected NAME or NAMESPACE/NAME"));
            }
            Some(name)
        }
        [_, extra, ..] => return Err(format!("only one service is allowed; remove {extra:?}; see --help")),
    };
    let is_json = match arguments.value("output") {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => return Err(format!("-o: {other:?} is not one of text and json")),
    };
    let agent = arguments.agent()?;
    let mut found = Found::default();
    let mut next = String::new();
    loop {
        let mut parameters = vec![("continue", next.as_str())];
        parameters.extend(service.as_deref().map(|service| ("service", service)));
        let mut page = client::ask(agent, DIFF, &parameters)?;
        found.add(&mut page);
        match page["continue"].as_str() {
            Some(last) => next = last.to_owned(),
            None => break,
        }
    }
    match is_json {
        true => print_document(&json_text(&found.document())),
        false => print(&found.text()),
    }?;
    Ok(if found.count == 0 { GOOD } else { NOT_GOOD })
}

/// Differences that are listed, as those of a page.
const MOST_LISTED: usize = 1000;

/// Of all pages.
#[derive(Default)]
struct Found {
    compared: u64,
    is_partial: bool,
    is_pending: bool,
    /// What was being written.
    changing: u64,
    /// Families that nothing was written of.
    unwritten: Vec<Value>,
    count: u64,
    /// The first of them.
    differences: Vec<Value>,
}

impl Found {
    fn add(&mut self, page: &mut Value) {
        self.compared += page["compared"].as_u64().unwrap_or_default();
        self.is_partial |= page["partial"] == true;
        self.is_pending |= page["pending"] == true;
        self.changing += page["changing"].as_u64().unwrap_or_default();
        let differences = page["differences"].as_array_mut().map(std::mem::take).unwrap_or_default();
        self.count += page["differenceCount"].as_u64().unwrap_or(differences.len() as u64);
        let room = MOST_LISTED.saturating_sub(self.differences.len());
        self.differences.extend(differences.into_iter().take(room));
        self.unwritten = page["unwritten"].as_array().cloned().unwrap_or_default();
    }

    fn document(&self) -> Value {
        let Found { compared, is_partial, is_pending, changing, unwritten, count, differences } = self;
        json!({
            "compared": compared,
            "partial": is_partial,
            "unwritten": unwritten,
            "pending": is_pending,
            "changing": changing,
            "differenceCount": count,
            "differences": differences,
        })
    }

    fn text(&self) -> String {
        let mut text = listed(&self.differences);
        let named = self.differences.len() as u64;
        let outcome = match self.count {
            0 if self.compared == 0 => {
                return "nothing compared: no service has rules that can be read back\n".to_owned();
            }
            0 => "no difference".to_owned(),
            1 => "1 difference".to_owned(),
            count if count > named => format!("{count} differences, of which {named} are listed"),
            count => format!("{count} differences"),
        };
        text.push_str(&format!("{} places compared: {outcome}\n", self.compared));
        if self.is_partial {
            text.push_str("Comparison incomplete: some services have too many endpoints\n");
        }
        for family in self.unwritten.iter().filter_map(Value::as_str) {
            let family = harmless(family, false);
            text.push_str(&format!("{family} was not compared: nothing is programmed there yet\n"));
        }
        match self.changing {
            0 => {}
            1 => text.push_str("1 place was not compared because it was being written; try again\n"),
            count => text.push_str(&format!(
                "{count} places were not compared because they were being written; try again\n"
            )),
        }
        if self.is_pending {
            text.push_str(
                "A change is waiting to be synced: the kernel was compared with what was written before\n",
            );
        }
        text
    }
}

fn listed(differences: &[Value]) -> String {
    let word = |value: &Value| harmless(value.as_str().unwrap_or_default(), false).into_owned();
    let mut text = String::new();
    for one in differences {
        let service = one["service"].is_string().then(|| format!("{}: ", word(&one["service"])));
        let service = service.unwrap_or_default();
        let (place, expected, found) = (word(&one["place"]), word(&one["expected"]), word(&one["found"]));
        text.push_str(&format!("{service}{place}: expected {expected}, found {found}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_their_service() {
        let one = json!({ "service": "default/web", "place": "ip kube-proxy endpoints { 1 }", "expected": "a", "found": "nothing" });
        let wanted = "default/web: ip kube-proxy endpoints { 1 }: expected a, found nothing\n7 places compared: 1 difference\n";
        let found = |mut page: Value| {
            let mut found = Found::default();
            found.add(&mut page);
            found.text()
        };
        assert_eq!(found(json!({ "compared": 7, "differenceCount": 1, "differences": [one] })), wanted);
        assert_eq!(found(json!({ "compared": 7 })), "7 places compared: no difference\n");
        assert!(found(json!({ "compared": 0 })).starts_with("nothing compared"));
        let many = found(json!({ "compared": 7, "differenceCount": 5, "differences": [one, one] }));
        assert!(many.ends_with("7 places compared: 5 differences, of which 2 are listed\n"), "{many}");
        let before = found(json!({ "compared": 7, "pending": true }));
        assert!(before.contains("\nA change is waiting to be synced: "), "{before}");
        let changing = found(json!({ "compared": 7, "changing": 2 }));
        assert!(
            changing.ends_with("\n2 places were not compared because they were being written; try again\n")
        );
        let single = found(json!({ "compared": 7, "unwritten": ["IPv6"] }));
        assert!(single.ends_with("\nIPv6 was not compared: nothing is programmed there yet\n"), "{single}");
        let part = found(json!({ "compared": 7, "partial": true }));
        assert!(part.contains("\nComparison incomplete: "), "{part}");
    }
    #[test]
    fn differences_of_all_pages_beyond_the_first_are_counted() {
        let mut found = Found::default();
        for _ in 0..3 {
            let page =
                json!({ "compared": 600, "differenceCount": 600, "differences": vec![json!({}); 600] });
            found.add(&mut page.clone());
        }
        assert_eq!((found.count, found.differences.len()), (1800, 1000));
        let last = found.text().lines().last().map(str::to_owned);
        assert_eq!(last.as_deref(), Some("1800 places compared: 1800 differences, of which 1000 are listed"));
    }
}
