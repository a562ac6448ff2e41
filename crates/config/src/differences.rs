//! What two configurations disagree about, in the operator's names.

use super::configuration::Configuration;
use super::node::Node;
use super::settings;

/// `path: old → new` of every setting that differs.
pub fn differences(old: &Configuration, new: &Configuration) -> Vec<String> {
    let (mut old, mut new) = (old.clone(), new.clone());
    let differing = settings::all().filter_map(|setting| {
        let (old, new) = (setting.value(&mut old).show(), setting.value(&mut new).show());
        (old != new).then(|| format!("{}: {} → {}", setting.path, show(&old), show(&new)))
    });
    differing.collect()
}

fn show(node: &Node) -> String {
    match node {
        Node::Text(text) if !text.is_empty() => text.clone(),
        Node::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Node::Map(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}: {}", show(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.describe(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Whole;

    #[test]
    fn only_what_differs_is_named() {
        let old = Configuration::default();
        assert_eq!(differences(&old, &old), Vec::<String>::new());
        let mut new = old.clone();
        new.oom_score_adj = Whole(5);
        new.hostname_override = "n".into();
        let said = differences(&old, &new);
        assert_eq!(said, ["hostnameOverride: \"\" → n", "oomScoreAdj: -999 → 5"]);
    }
}
