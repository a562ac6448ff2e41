//! How a histogram is written for Prometheus.

use dataplane::metrics::Page;

use super::value::Snapshot;

/// `labels` as `label_text` makes them.
pub(super) fn write(page: &mut Page, name: &str, labels: &str, snapshot: &Snapshot) {
    let separator = if labels.is_empty() { "" } else { "," };
    let bounds = snapshot.buckets.iter().map(|(bound, count)| (bound_text(*bound), *count));
    for (bound, count) in bounds.chain([("+Inf".to_owned(), snapshot.count)]) {
        page.count(&format!("{name}_bucket"), &format!("{labels}{separator}le=\"{bound}\""), count);
    }
    page.sample(&format!("{name}_sum"), labels, snapshot.sum);
    page.count(&format!("{name}_count"), labels, snapshot.count);
}

/// A bound as Go's client libraries print it, so that queries which name one in `le` find ours: `16.384`, `1.048576e+06`.
fn bound_text(bound: f64) -> String {
    let scientific = format!("{bound:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent @ (..=-5 | 6..)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => bound.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_go_writes_them() {
        let texts =
            [0.001, 0.25, 16.384, 60.0, 262_144.0, 1_048_576.0, 16_777_216.0, 0.00001].map(bound_text);
        let known = ["0.001", "0.25", "16.384", "60", "262144", "1.048576e+06", "1.6777216e+07", "1e-05"];
        assert_eq!(texts, known);
    }
}
