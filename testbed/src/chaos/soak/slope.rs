//! Does something grow? A straight line through readings over time, and how sure its slope is: pure.

use serde::Serialize;

/// What one process held at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    /// Since the part began, s.
    pub t_s: f64,
    /// Resident memory.
    pub rss_mib: f64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

/// The readings of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Whose.
    pub name: String,
    /// In order of time.
    pub readings: Vec<Reading>,
}

/// A slope, and its standard error, per hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// What it grows in an hour.
    pub per_hour: f64,
    /// How far off that may be, one standard error.
    pub error: f64,
}

impl Slope {
    /// What it grows at least, with some 97 % of certainty.
    pub fn at_least(self) -> f64 {
        self.per_hour - 2.0 * self.error
    }
}

/// The part of readings at the beginning that count for nothing: tables and caches fill.
pub const WARM_UP: f64 = 0.2;

/// The line through points (s, value) by least squares, without the warm-up. Of fewer than three points nothing is known.
pub fn slope(points: &[(f64, f64)]) -> Slope {
    let unknown = Slope { per_hour: f64::NAN, error: f64::NAN };
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return unknown };
    let begin = first.0 + WARM_UP * (last.0 - first.0);
    let settled: Vec<(f64, f64)> = points.iter().copied().filter(|(t, _)| *t >= begin).collect();
    let n = settled.len() as f64;
    if settled.len() < 3 {
        return unknown;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| settled.iter().map(of).sum::<f64>() / n;
    let (t, y) = (mean(|p| p.0), mean(|p| p.1));
    let tt: f64 = settled.iter().map(|p| (p.0 - t).powi(2)).sum();
    if tt <= 0.0 {
        return unknown;
    }
    let ty: f64 = settled.iter().map(|p| (p.0 - t) * (p.1 - y)).sum();
    let steep = ty / tt;
    let rest: f64 = settled.iter().map(|p| (p.1 - y - steep * (p.0 - t)).powi(2)).sum();
    Slope { per_hour: steep * 3600.0, error: (rest / (n - 2.0) / tt).sqrt() * 3600.0 }
}

impl Series {
    /// How its memory grows.
    pub fn memory(&self) -> Slope {
        slope(&self.readings.iter().map(|reading| (reading.t_s, reading.rss_mib)).collect::<Vec<_>>())
    }

    /// Least and most of something after the warm-up.
    pub fn range(&self, of: fn(&Reading) -> usize) -> (usize, usize) {
        let end = self.readings.last().map_or(0.0, |reading| reading.t_s);
        let settled = self.readings.iter().filter(|reading| reading.t_s >= WARM_UP * end).map(of);
        settled.fold((usize::MAX, 0), |(least, most), value| (least.min(value), most.max(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_and_noise_an_error() {
        let line: Vec<(f64, f64)> = (0..100).map(|n| (f64::from(n) * 36.0, 10.0 + 0.02 * f64::from(n))).collect();
        let found = slope(&line);
        assert!((found.per_hour - 2.0).abs() < 1e-9 && found.error < 1e-9, "{found:?}");
        let noise: Vec<(f64, f64)> =
            (0..100).map(|n| (f64::from(n) * 36.0, 10.0 + if n % 2 == 0 { 1.0 } else { -1.0 })).collect();
        let found = slope(&noise);
        assert!(found.error > 0.1 && found.at_least() <= 0.0, "{found:?}");
        assert!(slope(&line[..2]).per_hour.is_nan() && slope(&[]).per_hour.is_nan());
    }

    #[test]
    fn what_fills_at_the_beginning_is_no_growth() {
        let filling: Vec<(f64, f64)> = (0..100).map(|n| (f64::from(n), f64::from(n).min(15.0))).collect();
        assert!(slope(&filling).per_hour.abs() < 1e-9);
        let reading =
            |n: u32| Reading { t_s: f64::from(n), descriptors: if n < 10 { 99 } else { 5 }, ..Reading::default() };
        let series = Series { name: "x".into(), readings: (0..100).map(reading).collect() };
        assert_eq!(series.range(|reading| reading.descriptors), (5, 5));
    }
}
