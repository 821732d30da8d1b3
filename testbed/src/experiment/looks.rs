//! What flows did, by looks at them: how long one was silent, and how little came in ten milliseconds.
//!
//! A flow is silent while it has something to send and nothing of it is acknowledged: bytes that its member may send
//! and the kernel does not take, or that the kernel holds, sent or not. One whose part of a round is done, and that
//! waits for others, is not silent, however long that takes. What flows do is known at looks, every so many milliseconds
//! also while nothing moves; a flow counts between two looks at both of which it has something to send.

/// What the outgoing flows of one member were like at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSample {
    /// CLOCK_MONOTONIC, ns.
    pub t_ns: u64,
    /// The member's place in the job, workers first.
    pub rank: usize,
    /// Acknowledged bytes of each outgoing flow, and whether `sluice` drives it.
    pub flows: Vec<(u64, bool)>,
    /// Whether each of them has something to send: bytes that are not acknowledged, in the kernel or with the member.
    pub unsent: Vec<bool>,
}

impl FlowSample {
    /// Has this flow something to send?
    pub fn is_unsent(&self, flow: usize) -> bool {
        self.unsent.get(flow).copied().unwrap_or_default()
    }

    /// Bytes of this flow that were acknowledged; a flow that is not there has none.
    pub fn acked(&self, flow: usize) -> u64 {
        self.flows.get(flow).map_or(0, |f| f.0)
    }
}

/// What a member's flows were like at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    /// CLOCK_MONOTONIC, ns.
    t_ns: u64,
    sample: &'a FlowSample,
}

/// The looks at member `rank` within `from..to` (ns). What was last seen before that counts as seen at its begin, so
/// that a silence which began earlier counts from there.
pub(super) fn looks(samples: &[FlowSample], rank: usize, from: u64, to: u64) -> Vec<Look<'_>> {
    let mine = || samples.iter().filter(move |s| s.rank == rank && s.t_ns <= to);
    let before = mine().rfind(|s| s.t_ns < from).map(|sample| Look { t_ns: from, sample });
    let within = mine().filter(|s| s.t_ns >= from).map(|sample| Look { t_ns: sample.t_ns, sample });
    before.into_iter().chain(within).collect()
}

fn flows(looks: &[Look<'_>]) -> usize {
    looks.first().map_or(0, |look| look.sample.flows.len())
}

/// The longest silence of a flow, ms; NaN: none ever had something to send.
pub(super) fn longest_silence(looks: &[Look<'_>]) -> f64 {
    let mut longest: Option<u64> = None;
    for flow in 0..flows(looks) {
        // The look at which it was last seen to move, or to have something to send at all.
        let mut since: Option<&Look<'_>> = None;
        for look in looks {
            if !look.sample.is_unsent(flow) {
                since = None;
                continue;
            }
            longest = longest.max(since.map(|since| look.t_ns.saturating_sub(since.t_ns)));
            since = since.filter(|since| since.sample.acked(flow) == look.sample.acked(flow)).or(Some(look));
        }
    }
    longest.map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

/// What each flow got acknowledged on average while any had something to send, bytes a nanosecond. Empty: none had.
pub(super) fn means(looks: &[Look<'_>]) -> Vec<f64> {
    let mut bytes = vec![0; flows(looks)];
    let mut time = 0;
    for pair in looks.windows(2) {
        let is_unsent = |flow: usize| pair.iter().all(|look| look.sample.is_unsent(flow));
        if !(0..bytes.len()).any(is_unsent) {
            continue;
        }
        time += pair[1].t_ns.saturating_sub(pair[0].t_ns);
        for (flow, bytes) in bytes.iter_mut().enumerate() {
            *bytes += pair[1].sample.acked(flow).saturating_sub(pair[0].sample.acked(flow));
        }
    }
    if time == 0 { Vec::new() } else { bytes.into_iter().map(|bytes| bytes as f64 / time as f64).collect() }
}

/// The least that came in 10 ms, as a part of what the flows that had something to send all through them get on average
/// (`means`, bytes a nanosecond). A flow that has nothing to send owes nothing; NaN: none owed anything.
pub(super) fn least_bin(looks: &[Look<'_>], means: &[f64]) -> f64 {
    const BIN: u64 = 10_000_000;
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return f64::NAN };
    // What was acknowledged by a time, between two looks in a straight line: looks are not taken at the bins' edges.
    let acked = |flow: usize, t: u64| {
        let after = looks.partition_point(|look| look.t_ns < t).min(looks.len() - 1);
        let [before, after] = [looks[after.saturating_sub(1)], looks[after]];
        let [b0, b1] = [before, after].map(|look| look.sample.acked(flow) as f64);
        let part = t.saturating_sub(before.t_ns) as f64 / after.t_ns.saturating_sub(before.t_ns).max(1) as f64;
        b0 + (b1 - b0) * part.min(1.0)
    };
    let part = |bin: u64| {
        let (begin, end) = (first.t_ns + bin * BIN, first.t_ns + (bin + 1) * BIN);
        // The looks between which the bin lies, and those in it.
        let from = looks.partition_point(|look| look.t_ns <= begin).saturating_sub(1);
        let to = looks.partition_point(|look| look.t_ns < end).min(looks.len() - 1);
        let owes = |flow: &usize| looks[from..=to].iter().all(|look| look.sample.is_unsent(*flow));
        let owed: f64 = (0..means.len()).filter(owes).map(|flow| means[flow] * BIN as f64).sum();
        let came: f64 = (0..flows(looks)).map(|flow| acked(flow, end) - acked(flow, begin)).sum();
        (owed > 0.0).then(|| came / owed)
    };
    (0..(last.t_ns - first.t_ns) / BIN).filter_map(part).fold(f64::NAN, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one flow had acknowledged at a look, bytes, and whether it had something to send.
    struct Flow(u64, bool);

    fn sample(t_ms: u64, flows: &[Flow]) -> FlowSample {
        FlowSample {
            t_ns: t_ms * 1_000_000,
            rank: 0,
            flows: flows.iter().map(|flow| (flow.0, true)).collect(),
            unsent: flows.iter().map(|flow| flow.1).collect(),
        }
    }

    fn every_4_ms(until_ms: u64, at: impl Fn(u64) -> [Flow; 2]) -> Vec<FlowSample> {
        (0..=until_ms / 4).map(|n| sample(n * 4, &at(n * 4))).collect()
    }

    fn silence(samples: &[FlowSample], from_ms: u64, to_ms: u64) -> f64 {
        longest_silence(&looks(samples, 0, from_ms * 1_000_000, to_ms.saturating_mul(1_000_000)))
    }

    /// The least bin of everything, over all of it up to `base_ms`.
    fn bin(samples: &[FlowSample], base_ms: u64) -> f64 {
        let base = means(&looks(samples, 0, 0, base_ms * 1_000_000));
        least_bin(&looks(samples, 0, 0, u64::MAX), &base)
    }

    #[test]
    fn a_flow_that_waits_is_not_silent() {
        // The second flow's part of the round is done at 40 ms; the next round begins at 400 ms.
        let waits = |t: u64| [Flow(t, true), Flow(if t < 400 { t.min(40) } else { t }, !(40..400).contains(&t))];
        assert!((silence(&every_4_ms(600, waits), 0, 600) - 4.0).abs() < 1e-9);
        let nobody = |t: u64| [Flow(t, false), Flow(t, false)];
        assert!(silence(&every_4_ms(600, nobody), 0, 600).is_nan(), "nothing was measured");
        assert!(silence(&[], 0, 600).is_nan());
    }

    #[test]
    fn a_flow_that_has_bytes_and_does_not_move_is_silent() {
        // From 40 to 340 ms, with a full buffer or with everything in flight.
        let stuck = |t: u64| [Flow(t, true), Flow(if t < 340 { t.min(40) } else { t }, true)];
        let samples = every_4_ms(600, stuck);
        // What began before counts from the begin on, and what does not end, up to the last look.
        for (from, to, ms) in [(0, 600, 300.0), (102, 600, 238.0), (0, 302, 260.0), (102, 302, 198.0)] {
            assert!((silence(&samples, from, to) - ms).abs() < 1e-9, "{from} to {to} ms");
        }
        // Nor does it help that it then has nothing more to send.
        let ends = |t: u64| [Flow(t, true), Flow(if t < 340 { t.min(40) } else { 41 }, t < 340)];
        assert!((silence(&every_4_ms(600, ends), 0, 600) - 296.0).abs() < 1e-9);
    }

    #[test]
    fn the_least_bin_is_where_nothing_came() {
        // 1 MB every 10 ms, but for one bin with nothing.
        let step = |n: u64| sample(n * 10, &[Flow(1_000_000 * if n > 5 { n - 1 } else { n }, true)]);
        let samples: Vec<FlowSample> = (0..11).map(step).collect();
        assert!(bin(&samples, 50).abs() < 1e-9 && bin(&[], 40).is_nan());
        assert!((bin(&samples[..5], 40) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_flow_that_waits_owes_no_bin() {
        // Both get 1 MB a millisecond; the second has done its part at 100 ms, and the first gets no more for that.
        let done = |t: u64| [Flow(t * 1_000_000, true), Flow(t.min(100) * 1_000_000, t < 100)];
        assert!((bin(&every_4_ms(400, done), 80) - 1.0).abs() < 1e-9);
        // With bytes to send it owes its half.
        let stuck = |t: u64| [Flow(t * 1_000_000, true), Flow(t.min(100) * 1_000_000, true)];
        assert!((bin(&every_4_ms(400, stuck), 80) - 0.5).abs() < 1e-9);
        // And where the first waits as well, nobody owes anything, or all of it.
        let none = |t: u64| [Flow(t.min(100) * 1_000_000, t < 100), Flow(t.min(100) * 1_000_000, t < 100)];
        let samples = every_4_ms(400, none);
        assert!((bin(&samples, 80) - 1.0).abs() < 1e-9);
        assert!((bin(&samples, 400) - 1.0).abs() < 1e-9, "nor does a pause of all make their mean smaller");
        let all = |t: u64| [Flow(t.min(100) * 1_000_000, true), Flow(t.min(100) * 1_000_000, true)];
        assert!(bin(&every_4_ms(400, all), 80).abs() < 1e-9);
    }
}
