//! Ratios of runs of the same turn: mean, spread, worst, and intervals that say how far chance may have made them.

use serde::Serialize;
use sluice_scenario::random::Stream;

use crate::stats::mean;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 4000;
/// Seed of every bootstrap; the label keeps those of different figures apart.
const SEED: u64 = 1;

/// Where a figure lies with a probability of 90 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// A ratio over pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Paired {
    /// One a pair, in order of turns.
    pub ratios: Vec<f64>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample deviation; `None` of one pair.
    pub sd: Option<f64>,
    /// Where the mean lies, by Student's distribution; `None` of one pair.
    pub interval: Option<Interval>,
    /// The largest.
    pub worst: f64,
}

impl Paired {
    /// Of these ratios; `None` of none.
    pub fn of(ratios: Vec<f64>) -> Option<Paired> {
        if ratios.is_empty() {
            return None;
        }
        let (mean, sd) = (mean(&ratios), deviation(&ratios));
        let n = ratios.len();
        let interval = sd.map(|sd| {
            let half = student_95(n - 1) * sd / (n as f64).sqrt();
            Interval { low: mean - half, high: mean + half }
        });
        let worst = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Paired { ratios, mean, sd, interval, worst })
    }
}

/// Sample standard deviation; `None` of fewer than two.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let middle = mean(values);
    let sum: f64 = values.iter().map(|v| (v - middle).powi(2)).sum();
    Some((sum / (n - 1) as f64).sqrt())
}

/// What Student's t stays below with a probability of 95 %, so that both sides leave 90 %.
fn student_95(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812];
    let z: f64 = 1.644_85;
    // Beyond the table the first two terms of the expansion in 1/freedom are right to three digits.
    let beyond =
        |f: f64| z + (z.powi(3) + z) / (4.0 * f) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * f * f);
    TABLE.get(freedom.max(1) - 1).copied().unwrap_or_else(|| beyond(freedom as f64))
}

/// The 5th and 95th percentile of what `figure` says of pairs drawn with replacement, by their indices; the same for the
/// same label. `None` of one pair, or where some draw gives no figure.
pub fn bootstrap(pairs: usize, label: &str, figure: impl Fn(&[usize]) -> Option<f64>) -> Option<Interval> {
    if pairs < 2 {
        return None;
    }
    let mut stream = Stream::new(SEED, label);
    let mut drawn = Vec::with_capacity(RESAMPLES);
    let mut indices = vec![0; pairs];
    for _ in 0..RESAMPLES {
        indices.iter_mut().for_each(|index| *index = stream.index(pairs));
        drawn.push(figure(&indices)?);
    }
    drawn.sort_by(f64::total_cmp);
    let at = |q: f64| crate::stats::percentile(&drawn, q);
    Some(Interval { low: at(0.05), high: at(0.95) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_mean_spread_and_worst() {
        let paired = Paired::of(vec![0.9, 1.0, 0.8, 0.9]).expect("pairs");
        assert!((paired.mean - 0.9).abs() < 1e-12 && paired.worst == 1.0, "{paired:?}");
        let sd = paired.sd.expect("four pairs");
        assert!((sd - (0.02_f64 / 3.0).sqrt()).abs() < 1e-12, "{sd}");
        let interval = paired.interval.expect("four pairs");
        // Student's t of three degrees of freedom, both sides 5 %.
        assert!((interval.high - 0.9 - 2.353 * sd / 2.0).abs() < 1e-9, "{interval:?}");
        assert!((interval.low + interval.high - 1.8).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn one_pair_has_no_spread_and_none_has_nothing() {
        let one = Paired::of(vec![0.7]).expect("a pair");
        assert_eq!((one.mean, one.sd, one.interval, one.worst), (0.7, None, None, 0.7));
        assert_eq!(Paired::of(Vec::new()), None);
        assert_eq!(bootstrap(1, "x", |_| Some(1.0)), None);
    }

    #[test]
    fn the_table_goes_over_into_the_formula() {
        for (freedom, is) in [(1, 6.314), (10, 1.812), (11, 1.796), (15, 1.753), (30, 1.697), (1000, 1.646)] {
            assert!((student_95(freedom) - is).abs() < 1.5e-3, "{freedom}: {}", student_95(freedom));
        }
        assert!((1..200).all(|f| student_95(f) >= student_95(f + 1)));
    }

    #[test]
    fn a_bootstrap_is_the_same_each_time_and_holds_the_mean() {
        let values = [1.0, 2.0, 3.0, 4.0, 10.0];
        let of = |pairs: &[usize]| Some(pairs.iter().map(|p| values[*p]).sum::<f64>() / pairs.len() as f64);
        let first = bootstrap(values.len(), "a", of).expect("five pairs");
        assert_eq!(Some(first), bootstrap(values.len(), "a", of));
        assert!(first.low < 4.0 && first.high > 4.0 && first.low >= 1.0 && first.high <= 10.0, "{first:?}");
        // Of equal pairs there is nothing to doubt, and a draw without a figure makes none.
        assert_eq!(bootstrap(4, "b", |_| Some(2.5)), Some(Interval { low: 2.5, high: 2.5 }));
        assert_eq!(bootstrap(4, "c", |pairs| (pairs[0] != 2).then_some(1.0)), None);
    }
}
