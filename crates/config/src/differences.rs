//! What two configurations disagree about, in the operator's names.

use std::fmt;

use super::configuration::Configuration;
use super::node::Node;
use super::settings::{self, Setting};

/// A setting that two configurations have different values of. Shown as `path: old → new`.
pub struct Difference {
    pub setting: &'static Setting,
    pub old: String,
    pub new: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} → {}", self.setting.path, self.old, self.new)
    }
}

/// Every setting that differs.
pub fn differences(old: &Configuration, new: &Configuration) -> Vec<Difference> {
    let (mut old, mut new) = (old.clone(), new.clone());
    let differing = settings::all().filter_map(|setting| {
        let (old, new) = (setting.value(&mut old).show(), setting.value(&mut new).show());
        (old != new).then(|| Difference { setting, old: show(&old), new: show(&new) })
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
        assert!(differences(&old, &old).is_empty());
        let mut new = old.clone();
        new.oom_score_adj = Whole(5);
        new.hostname_override = "n".into();
        let said: Vec<String> = differences(&old, &new).iter().map(Difference::to_string).collect();
        assert_eq!(said, ["hostnameOverride: \"\" → n", "oomScoreAdj: -999 → 5"]);
    }
}
