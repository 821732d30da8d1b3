//! Time against size as SVG, both axes logarithmic, a line per plan: flat where latency counts, slanted where bandwidth
//! does. It follows the viewer's wish for light or dark.

use std::fmt::Write as _;

use super::{Comparison, Row};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::draw::escape;

/// The picture, and the room of the axes in it.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
/// Height of a row of the legend.
const ROW: f64 = 20.0;
/// Points of a line for each decade of sizes.
const POINTS: i32 = 6;
/// Colours for a light and for a dark ground, as many as there are plans at most.
const LIGHT: [&str; super::MAX_PLANS] = [
    "#1f6fb4", "#c8420a", "#1d8348", "#8e3fb0", "#a57300", "#0b8a99", "#b3245f", "#5b6670", "#3f3fbf", "#7a8b00",
    "#8a4b2a", "#000000",
];
const DARK: [&str; super::MAX_PLANS] = [
    "#6db5f2", "#ff9a63", "#62d394", "#d59af0", "#f2c14e", "#5cd6e4", "#ff86b3", "#b5c0ca", "#a3a3ff", "#cfe04a",
    "#e0a27a", "#ffffff",
];
/// Patterns of lines, so that colours are not all that tells them apart.
const DASHES: [&str; 4] = ["", "7 4", "2 3", "10 3 2 3"];

/// A logarithmic axis: exponents of ten at its ends, and where those lie in the picture.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// From the decade below the least to that above the most.
    fn around(values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Axis {
        let (least, most) = values
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let (low, high) = if most > 0.0 { (least.log10().floor(), most.log10().ceil()) } else { (0.0, 1.0) };
        Axis { low, high: high.max(low + 1.0), from, to }
    }
    fn at(&self, value: f64) -> f64 {
        let part = (value.log10().clamp(self.low, self.high) - self.low) / (self.high - self.low);
        self.from + part * (self.to - self.from)
    }
    fn decades(&self) -> std::ops::RangeInclusive<i32> {
        self.low as i32..=self.high as i32
    }
}

pub fn svg(comparison: &Comparison<'_>) -> String {
    let units = comparison.has_units();
    let sizes = || comparison.sizes.iter().map(Rational::to_f64);
    let bottom = HEIGHT - BOTTOM;
    let across = Axis::around(sizes(), (LEFT, WIDTH - RIGHT));
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    let points = points(least, most);
    let line = |row: &Row| -> Vec<(f64, f64)> {
        points.iter().map(|size| (size.to_f64(), row.cost.time(size).to_f64())).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = comparison.rows.iter().map(line).collect();
    let times = comparison.rows.iter().flat_map(|row| &row.times).map(Rational::to_f64);
    let up = Axis::around(times.chain(lines.iter().flatten().map(|(_, time)| *time)), (bottom, TOP));
    let height = HEIGHT + ROW * comparison.rows.len() as f64 + 8.0;
    let mut out = head(comparison, height);
    for decade in across.decades() {
        let x = across.at(10_f64.powi(decade));
        let label = if units {
            in_unit(decade, &[(0, "B"), (3, "kB"), (6, "MB"), (9, "GB"), (12, "TB")])
        } else {
            power(decade)
        };
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{x:.1} {TOP:.1}V{bottom:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 18.0
        );
    }
    for decade in up.decades() {
        let y = up.at(10_f64.powi(decade));
        let label =
            if units { in_unit(decade, &[(-9, "ns"), (-6, "µs"), (-3, "ms"), (0, "s")]) } else { power(decade) };
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT:.1} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0
        );
    }
    let (size, time) = if units { ("size", "time") } else { ("size, abstract", "time, abstract") };
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{size}</text><text transform=\"translate(20 {:.1}) rotate(-90)\" \
         text-anchor=\"middle\">{time}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        bottom + 40.0,
        (TOP + bottom) / 2.0
    );
    for (place, (row, line)) in comparison.rows.iter().zip(&lines).enumerate() {
        draw(&mut out, (place, row), line, (&across, &up), comparison);
    }
    out.push_str("</svg>\n");
    out
}

/// A line, a dot for each size, and its words in the legend.
fn draw(
    out: &mut String,
    (place, row): (usize, &Row),
    line: &[(f64, f64)],
    (across, up): (&Axis, &Axis),
    comparison: &Comparison<'_>,
) {
    let dash = DASHES[place % DASHES.len()];
    let dashed = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
    let name = escape(&words(row));
    // A time of nothing has no place on a logarithmic axis.
    let there = line.iter().filter(|(_, time)| *time > 0.0);
    let path: Vec<String> = there.map(|(size, time)| format!("{:.1} {:.1}", across.at(*size), up.at(*time))).collect();
    let _ = writeln!(out, "<g class=\"p{place}\"><title>{name}</title>");
    if !path.is_empty() {
        let _ = writeln!(out, "<path class=\"line\" d=\"M{}\"{dashed}/>", path.join("L"));
    }
    for (i, (size, time)) in
        comparison.sizes.iter().zip(&row.times).enumerate().filter(|(_, (_, time))| time.is_positive())
    {
        let (x, y) = (across.at(size.to_f64()), up.at(time.to_f64()));
        let radius = if comparison.is_best(row, i) { 5.0 } else { 2.6 };
        let _ = writeln!(out, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
    }
    let y = HEIGHT + ROW * place as f64;
    let _ = writeln!(
        out,
        "<path class=\"line\" d=\"M{LEFT:.1} {y:.1}h40\"{dashed}/></g>\n<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
        LEFT + 50.0,
        y + 4.0
    );
}

fn words(row: &Row) -> String {
    let planner = row.planner.as_ref().filter(|planner| **planner != row.name);
    let by = planner.map_or(String::new(), |planner| format!(", {planner}"));
    format!("{}{by}: {}", row.name, row.kind.word())
}

/// Sizes between these two, so many for each decade; rounded, since they are only looked at.
fn points(least: f64, most: f64) -> Vec<Rational> {
    let (low, high) = (least.log10(), most.log10());
    let count = (((high - low) * f64::from(POINTS)).ceil() as i32).clamp(1, 40 * POINTS);
    let at = |i: i32| 10_f64.powf(low + (high - low) * f64::from(i) / f64::from(count));
    // Whole bytes, or where there are few of them, or abstract ones, thousandths.
    let exact = |size: f64| {
        let parts = if size < 1000.0 { 1000 } else { 1 };
        Rational::new((size * f64::from(parts)).round().max(1.0) as i64, parts).unwrap_or(Rational::ONE)
    };
    (0..=count).map(|i| exact(at(i))).collect()
}

/// `10 MB` for 7, by the largest unit that is not above it.
fn in_unit(decade: i32, units: &[(i32, &str)]) -> String {
    let unit = units.iter().rev().find(|(power, _)| *power <= decade).or(units.first());
    match unit {
        Some((power, unit)) if (0..=3).contains(&(decade - power)) => {
            format!("{} {unit}", 10_i64.pow((decade - power) as u32))
        }
        Some((power, unit)) => {
            format!("10<tspan dy=\"-4\" font-size=\"9\">{}</tspan><tspan dy=\"4\"> {unit}</tspan>", decade - power)
        }
        None => power(decade),
    }
}

fn power(decade: i32) -> String {
    format!("10<tspan dy=\"-4\" font-size=\"9\">{decade}</tspan>")
}

/// The beginning: title, ground, colours.
fn head(comparison: &Comparison<'_>, height: f64) -> String {
    let collective = comparison.collective().map_or("", |collective| collective.word());
    let title = escape(&format!(
        "{collective} on {}, {} participants: time against size; large dots are the fastest",
        comparison.topology.name(),
        comparison.participants()
    ));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n<style>\n\
         .ground{{fill:#fff}} text{{fill:#27313b}} .grid{{stroke:#d5dce3;fill:none}} .line{{fill:none;stroke-width:2}}\n"
    );
    let rules = |out: &mut String, colours: &[&str]| {
        for (place, colour) in colours.iter().enumerate().take(comparison.rows.len()) {
            let _ = writeln!(out, ".p{place}{{stroke:{colour};fill:{colour}}}");
        }
    };
    rules(&mut out, &LIGHT);
    out.push_str(
        "@media (prefers-color-scheme: dark){\n.ground{fill:#12171c} text{fill:#d7dee5} .grid{stroke:#333d47}\n",
    );
    rules(&mut out, &DARK);
    let _ = writeln!(
        out,
        "}}\n</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n<text x=\"{LEFT:.0}\" y=\"24\" font-size=\"14\">{title}</text>"
    );
    out
}
