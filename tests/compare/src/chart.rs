//! The picture: for each number two bars, whose lengths are in proportion.

use std::fmt::Write;

use crate::contestant::Contestant;
use crate::report::{ROWS, Row};
use crate::results::SizeResult;

const WIDTH: u32 = 760;
const LEFT: u32 = 290;
const LONGEST: u32 = 330;
const BAR: u32 = 12;
const STEP: u32 = 44;
const TOP: u32 = 62;

/// On a ground of its own: whether the reader's page is dark cannot be known reliably from inside a picture.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}\
    .small{font-size:12px}.factor{font-weight:600}.ground{fill:#fff}.ours{fill:#2da44e}.upstream{fill:#8c959f}";

pub(crate) fn draw(size: &SizeResult, endpoints: u32) -> String {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.drawn).collect();
    let height = TOP + STEP * u32::try_from(rows.len()).unwrap_or_default();
    let title = format!("{}: shorter is better, × is upstream over ours", size.case().name(endpoints));
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n\
         <text class=\"title\" x=\"8\" y=\"22\">{title}</text>"
    );
    for (who, x) in [(Contestant::Ours, LEFT), (Contestant::Upstream, LEFT + 110)] {
        let _ = writeln!(
            svg,
            "<rect class=\"{}\" x=\"{x}\" y=\"36\" width=\"{BAR}\" height=\"{BAR}\" rx=\"2\"/>\
             <text class=\"small\" x=\"{}\" y=\"46\">{}</text>",
            class(who),
            x + BAR + 6,
            who.name()
        );
    }
    for (row, y) in rows.into_iter().zip((TOP..).step_by(STEP as usize)) {
        svg += &pair(row, size, y);
    }
    svg + "</svg>\n"
}

fn pair(row: &Row, size: &SizeResult, y: u32) -> String {
    let value = |who: Contestant| size.of(who).map_or(0.0, row.value);
    let longest = value(Contestant::Ours).max(value(Contestant::Upstream));
    let mut svg = format!("<text x=\"8\" y=\"{}\">{}</text>\n", y + BAR + 5, row.name);
    for (who, y) in [(Contestant::Ours, y), (Contestant::Upstream, y + BAR + 3)] {
        // Even the shortest one is to be seen.
        let length = (value(who) / longest * f64::from(LONGEST)).max(1.5);
        let factor = match who {
            Contestant::Ours => format!("<tspan class=\"factor\" dx=\"10\">{}</tspan>", row.factor(size)),
            Contestant::Upstream => String::new(),
        };
        let _ = writeln!(
            svg,
            "<rect class=\"{}\" x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\"/>\
             <text class=\"small\" x=\"{:.1}\" y=\"{}\">{}{factor}</text>",
            class(who),
            f64::from(LEFT) + length + 6.0,
            y + BAR - 2,
            row.write(size, who)
        );
    }
    svg
}

fn class(who: Contestant) -> &'static str {
    match who {
        Contestant::Ours => "ours",
        Contestant::Upstream => "upstream",
    }
}
