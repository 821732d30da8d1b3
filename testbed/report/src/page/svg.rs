//! A chart area with axes, in SVG. Axes begin at 0.

use std::fmt::Write as _;

use super::text;

/// Width of every chart, in SVG units; the page scales it.
pub(super) const WIDTH: f64 = 1000.0;
const LEFT: f64 = 92.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 8.0;

/// An SVG picture being drawn.
pub(super) struct Chart {
    out: String,
    height: f64,
    /// Values at the left and right end.
    x: (f64, f64),
    /// Value at the top; the bottom is 0.
    y: f64,
}

impl Chart {
    /// A chart of this height over `x.0..x.1` and `0..y`.
    pub(super) fn new(label: &str, height: f64, x: (f64, f64), y: f64) -> Chart {
        let mut out = String::new();
        _ = write!(out, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", text(label));
        Chart { out, height, x, y: y.max(1e-9) }
    }

    pub(super) fn at_x(&self, x: f64) -> f64 {
        let span = (self.x.1 - self.x.0).max(1e-9);
        LEFT + (x - self.x.0) / span * (WIDTH - LEFT - 12.0)
    }

    pub(super) fn at_y(&self, y: f64) -> f64 {
        self.height - BOTTOM - y / self.y * (self.height - BOTTOM - TOP)
    }

    pub(super) fn axes(&mut self, x_unit: &str, y_name: &dyn Fn(f64) -> String) {
        let (left, right, bottom) = (self.at_x(self.x.0), self.at_x(self.x.1), self.at_y(0.0));
        for value in ticks(self.y, 4) {
            let y = self.at_y(value);
            _ = write!(self.out, "<path class=\"axis\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>");
            let name = text(&y_name(value));
            _ = write!(
                self.out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
                left - 6.0,
                y + 4.0
            );
        }
        self.x_axis(x_unit, bottom);
    }

    /// The axis of time alone, at height `y`.
    pub(super) fn x_axis(&mut self, unit: &str, y: f64) {
        let (left, right) = (self.at_x(self.x.0), self.at_x(self.x.1));
        _ = write!(self.out, "<path class=\"axis\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>");
        for step in ticks(self.x.1 - self.x.0, 8) {
            let x = self.at_x(self.x.0 + step);
            _ = write!(
                self.out,
                "<path class=\"axis\" d=\"M{x:.1} {y:.1}v4\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} {unit}</text>",
                y + 17.0,
                number(self.x.0 + step)
            );
        }
    }

    pub(super) fn line(&mut self, points: impl Iterator<Item = (f64, f64)>, colour: &str) {
        let path = self.path(points);
        _ = write!(
            self.out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"var({colour})\" stroke-width=\"2.4\" stroke-linejoin=\"round\"/>"
        );
    }

    /// The area between two lines over the same x.
    pub(super) fn band(&mut self, x: &[f64], low: &[f64], high: &[f64], colour: &str, opacity: f64, title: &str) {
        let up = x.iter().copied().zip(high.iter().copied());
        let back = x.iter().copied().zip(low.iter().copied()).rev();
        let path = self.path(up.chain(back));
        _ = write!(
            self.out,
            "<path d=\"{path}Z\" fill=\"var({colour})\" fill-opacity=\"{opacity}\"><title>{}</title></path>",
            text(title)
        );
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (i, (x, y)) in points.enumerate() {
            let verb = if i == 0 { 'M' } else { 'L' };
            _ = write!(path, "{verb}{:.1} {:.1}", self.at_x(x), self.at_y(y));
        }
        path
    }

    /// A bar in a row, from one time to another; `y` and `height` in SVG units.
    pub(super) fn bar(&mut self, (from, to): (f64, f64), y: f64, height: f64, colour: &str, opacity: f64) {
        let (a, b) = (self.at_x(from), self.at_x(to));
        _ = write!(
            self.out,
            "<rect x=\"{a:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"var({colour})\" fill-opacity=\"{opacity}\"/>",
            (b - a).max(0.6)
        );
    }

    /// A label left of the chart.
    pub(super) fn row_label(&mut self, y: f64, label: &str) {
        _ = write!(self.out, "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, text(label));
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

/// Round numbers from 0 to `top`, about `wanted` of them.
pub(crate) fn ticks(top: f64, wanted: usize) -> Vec<f64> {
    if !(top > 0.0 && top.is_finite()) {
        return vec![0.0];
    }
    let raw = top / wanted.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= raw * 0.999).unwrap_or(raw);
    let count = (top / step * 1.000_001).floor() as usize;
    (0..=count.min(50)).map(|i| i as f64 * step).collect()
}

/// A number without needless digits.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(0.0, 5), [0.0]);
        assert_eq!(ticks(f64::NAN, 5), [0.0]);
        assert_eq!(number(2.50), "2.5");
    }
}
