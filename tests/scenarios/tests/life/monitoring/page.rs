//! A page of metrics, as far as tests look into it.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Page(pub(crate) String);

impl Page {
    /// Of a series as it is written, with all its labels.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        let behind = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        self.0.lines().find_map(behind)
    }

    /// The names that a query may select, those of histograms with their endings.
    pub(crate) fn selectable(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for declared in self.0.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = declared.split_once(' ').unwrap();
            match kind {
                "histogram" => names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}"))),
                _ => drop(names.insert(name.to_owned())),
            }
        }
        names
    }
}
