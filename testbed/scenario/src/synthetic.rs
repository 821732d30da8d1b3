//! Arrivals without a trace file, with the burstiness of public traces: negative binomial counts per minute, a slow
//! modulation over hours, GPU counts by table, log-normal durations (parameters: `testbed/data/README.md`).

use super::random::Stream;
use super::trace::Arrival;

const MEAN_PER_MINUTE: f64 = 16.0;
/// mean² / (variance − mean) of the trace.
const DISPERSION: f64 = 2.67;
/// Hour to hour, in log space.
const AR: f64 = 0.85;
const SIGMA: f64 = 0.33;
/// No minute has more jobs.
const MAX_PER_MINUTE: u32 = 100_000;
/// Jobs of each GPU count.
const GPUS: [(u32, f64); 10] = [
    (1, 76_627.0),
    (2, 1_818.0),
    (4, 1_870.0),
    (8, 1_643.0),
    (12, 7.0),
    (16, 199.0),
    (24, 7.0),
    (32, 67.0),
    (64, 6.0),
    (128, 3.0),
];

/// Makes one minute after the other.
pub(crate) struct Synthetic {
    stream: Stream,
    mean: f64,
    level: f64,
}

impl Synthetic {
    /// Draws come from a stream of their own, so that the mix does not depend on the counts.
    pub(crate) fn new(seed: u64, rate_scale: f64) -> Synthetic {
        let mut stream = Stream::new(seed, "arrivals-synthetic");
        let level = SIGMA * stream.normal();
        Synthetic { stream, mean: MEAN_PER_MINUTE * rate_scale, level }
    }

    /// The jobs of a minute, in order of place.
    pub(crate) fn minute(&mut self, minute: u64) -> Vec<Arrival> {
        if minute > 0 && minute.is_multiple_of(60) {
            self.level = AR * self.level + SIGMA * (1.0 - AR * AR).sqrt() * self.stream.normal();
        }
        let mean = self.mean * (self.level - SIGMA * SIGMA / 2.0).exp();
        let n = self.count(mean);
        let at_s = minute as f64 * 60.0;
        (0..n)
            .map(|k| {
                let gpus = self.gpus();
                let (median, sigma): (f64, f64) = if gpus == 1 { (1_144.0, 2.04) } else { (4_584.0, 3.67) };
                let duration = (median.ln() + sigma * self.stream.normal()).exp().min(30.0 * 86_400.0);
                let minute = Some((u64::from(k), u64::from(n)));
                Arrival { at_s, minute, gpus: Some(gpus), duration_s: Some(duration) }
            })
            .collect()
    }

    /// One negative binomial draw by walking up the distribution function.
    fn count(&mut self, mean: f64) -> u32 {
        let draw = self.stream.uniform();
        let step = mean / (DISPERSION + mean);
        let mut p = (DISPERSION / (DISPERSION + mean)).powf(DISPERSION);
        let (mut sum, mut k) = (p, 0);
        while sum <= draw && k < MAX_PER_MINUTE && p > 0.0 {
            p *= (f64::from(k) + DISPERSION) / f64::from(k + 1) * step;
            sum += p;
            k += 1;
        }
        k
    }

    fn gpus(&mut self) -> u32 {
        let total: f64 = GPUS.iter().map(|(_, n)| n).sum();
        let draw = self.stream.uniform() * total;
        let mut sum = 0.0;
        let found = GPUS.iter().find(|(_, n)| {
            sum += n;
            draw < sum
        });
        found.map_or(1, |(g, _)| *g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_burstiness_are_about_right() {
        let mut s = Synthetic::new(3, 1.0);
        let counts: Vec<f64> = (0..30_000).map(|m| s.minute(m).len() as f64).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let var = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((mean - 16.0).abs() < 2.0, "mean {mean}");
        assert!(var / mean > 4.0, "index of dispersion {}", var / mean);
    }
}
