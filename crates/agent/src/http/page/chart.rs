//! The last syncs as bars, on a logarithmic scale: a rewrite takes a thousand times as long as a change.

use serde_json::Value;

use super::html::Html;
use telemetry::metrics::MOST_REMEMBERED;

const WIDTH: usize = 960;
const HEIGHT: f64 = 96.0;
const STEP: usize = WIDTH / MOST_REMEMBERED;
/// What the lowest and the highest bar mean, in powers of ten of a microsecond: 0.1 ms and 10 s.
const LEAST: f64 = 2.0;
const MOST: f64 = 7.0;
const LINES: [(f64, &str); 4] = [(3.0, "1 ms"), (4.0, "10 ms"), (5.0, "100 ms"), (6.0, "1 s")];

pub(super) fn chart(html: &mut Html, syncs: &[Value]) {
    html.raw("<svg class=\"chart\" role=\"img\" viewBox=\"0 0 ").text(WIDTH).raw(" 100\" aria-label=\"");
    html.text(summary(syncs)).raw("\">");
    for (power, label) in LINES {
        let y = HEIGHT - height(power);
        html.raw("<line class=\"grid\" x1=\"0\" x2=\"")
            .text(WIDTH)
            .raw("\" y1=\"")
            .text(format_args!("{y:.1}"));
        html.raw("\" y2=\"").text(format_args!("{y:.1}")).raw("\"/><text class=\"grid\" x=\"2\" y=\"");
        html.text(format_args!("{:.1}", y - 2.0)).raw("\">").text(label).raw("</text>");
    }
    let room = MOST_REMEMBERED.saturating_sub(syncs.len());
    for (number, sync) in syncs.iter().enumerate() {
        bar(html, sync, (room + number) * STEP);
    }
    html.raw("</svg>");
}

fn bar(html: &mut Html, sync: &Value, x: usize) {
    let high = height((micros(sync) as f64).max(1.0).log10()).max(3.0);
    let class = match (sync["failed"].as_bool(), sync["family"].as_str()) {
        (Some(true), _) => "failed",
        (_, Some("IPv6")) => "v6",
        _ => "v4",
    };
    html.raw("<rect class=\"").raw(class).raw("\" x=\"").text(x + 3).raw("\" width=\"").text(STEP - 4);
    html.raw("\" rx=\"1.5\" y=\"").text(format_args!("{:.1}", HEIGHT - high)).raw("\" height=\"");
    html.text(format_args!("{high:.1}")).raw("\"><title>").text(words(sync)).raw("</title></rect>");
}

fn height(power: f64) -> f64 {
    (power.clamp(LEAST, MOST) - LEAST) / (MOST - LEAST) * (HEIGHT - 8.0)
}

fn micros(sync: &Value) -> u64 {
    sync["microseconds"].as_u64().unwrap_or_default()
}

/// `IPv4, 2.10 ms, 3 services, 512 bytes, at 12:00:00`.
pub(super) fn words(sync: &Value) -> String {
    let (family, what) = (sync["family"].as_str().unwrap_or_default(), written(sync));
    format!("{family}, {}, {what}, at {}", duration(micros(sync)), clock(&sync["time"]))
}

pub(super) fn written(sync: &Value) -> String {
    let all = if sync["full"] == true { "all rules: " } else { "" };
    match (sync["services"].as_u64(), sync["bytes"].as_u64()) {
        (Some(services), Some(bytes)) => {
            format!("{all}{services} {}, {bytes} bytes", if services == 1 { "service" } else { "services" })
        }
        _ => "failed; the previous rules remain active".to_owned(),
    }
}

/// The time of day, in UTC.
pub(super) fn clock(time: &Value) -> &str {
    time.as_str().and_then(|time| time.get(11..19)).unwrap_or("-")
}

pub(super) fn duration(micros: u64) -> String {
    let millis = micros as f64 / 1e3;
    match millis {
        ..10.0 => format!("{millis:.2} ms"),
        ..1000.0 => format!("{millis:.0} ms"),
        _ => format!("{:.2} s", millis / 1e3),
    }
}

fn summary(syncs: &[Value]) -> String {
    match syncs.last() {
        Some(last) => format!("The last {} syncs. The latest: {}", syncs.len(), words(last)),
        None => "No sync yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sync(micros: u64, failed: bool) -> Value {
        let services = (!failed).then_some(3);
        json!({ "time": "2026-01-02T03:04:05.000000Z", "family": "IPv6", "microseconds": micros, "failed": failed,
            "services": services, "bytes": services, "full": false })
    }

    #[test]
    fn bars_stay_within_the_chart() {
        let extremes = [0, 1, 99, 1_000, 123_456_789, u64::MAX].map(|micros| sync(micros, false));
        let mut html = Html::default();
        chart(&mut html, &extremes);
        let text = html.into_text();
        let heights = text.split("<rect ").skip(1).map(|rect| {
            let of = |name: &str| {
                let from = rect.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
                rect[from..].split('"').next().unwrap().parse::<f64>().unwrap()
            };
            assert!(of("y") >= 0.0 && of("height") >= 3.0 && of("x") < WIDTH as f64, "{rect}");
            of("height")
        });
        let heights: Vec<f64> = heights.collect();
        assert_eq!(heights.len(), 6);
        assert!(heights.is_sorted(), "{heights:?}");
    }

    #[test]
    fn a_bar_says_what_it_stands_for() {
        assert_eq!(words(&sync(2_100, false)), "IPv6, 2.10 ms, 3 services, 3 bytes, at 03:04:05");
        assert!(words(&sync(25_000, true)).starts_with("IPv6, 25 ms, failed"));
        assert_eq!(duration(1_500_000), "1.50 s");
    }
}
