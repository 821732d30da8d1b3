//! What samples say of flows: when each was given back, whether it should have been before that, and how long it waits
//! for an acknowledgement. A flow that has nothing to send waits for none and is given back by none: it counts while it
//! has. Pure.

use super::figure::quantile;
use super::ground::ms;
use crate::experiment::live::FlowSample;

/// Between two moments at which flows are asked how long they wait for an acknowledgement, ns.
const EVERY: u64 = 50_000_000;

/// How long flows wait for their next acknowledgement from any moment on, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// Of 99 of 100 waits.
    pub p99: f64,
    /// The longest.
    pub worst: f64,
}

/// The samples of host 0's member within a time.
pub fn mine(samples: &[FlowSample], from: u64, to: u64) -> Vec<&FlowSample> {
    samples.iter().filter(|s| s.rank == 0 && s.t_ns >= from && s.t_ns <= to).collect()
}

/// How long each flow that had something to send was managed, ms from `from` on, or from when it had something to send
/// again; one that still is counts as the last look at it.
pub fn released(mine: &[&FlowSample], from: u64) -> Vec<f64> {
    let flows = mine.first().map_or(0, |s| s.flows.len());
    let longest = |flow: usize| {
        let (mut since, mut longest) = (Some(from), 0.0_f64);
        for (at, sample) in mine.iter().enumerate() {
            if !sample.is_unsent(flow) {
                since = None;
                continue;
            }
            let since = *since.get_or_insert(sample.t_ns);
            if sample.flows.get(flow).is_some_and(|f| f.1) {
                longest = longest.max(ms(since, mine.get(at + 1).unwrap_or(sample).t_ns));
            }
        }
        longest
    };
    (0..flows).map(longest).collect()
}

/// Flows that stay managed although something was acknowledged between two looks, both of which came after all orders had run
/// out. A look reads what was acknowledged first: whatever had come by then must have given the flow back.
pub fn kept(mine: &[&FlowSample], ran_out: u64) -> usize {
    let late: Vec<&&FlowSample> = mine.iter().filter(|s| s.t_ns >= ran_out).collect();
    let flows = late.first().map_or(0, |s| s.flows.len());
    let is_kept = |flow: usize| {
        late.windows(2).any(|pair| {
            let [before, after] = [pair[0], pair[1]].map(|s| s.flows.get(flow).copied().unwrap_or_default());
            after.1 && after.0 > before.0
        })
    };
    (0..flows).filter(|flow| is_kept(*flow)).count()
}

/// How long each flow that has something to send waits at each of many moments, as long as half of the time is left to
/// see the end of it.
pub fn waits(mine: &[&FlowSample]) -> Waits {
    let (Some(first), Some(last)) = (mine.first(), mine.last()) else { return Waits::default() };
    let middle = first.t_ns + (last.t_ns - first.t_ns) / 2;
    let (mut all, mut next) = (Vec::new(), first.t_ns);
    for (at, sample) in mine.iter().enumerate() {
        if sample.t_ns < next || sample.t_ns > middle {
            continue;
        }
        next = sample.t_ns + EVERY;
        all.extend((0..sample.flows.len()).filter(|flow| sample.is_unsent(*flow)).map(|flow| {
            let moved = mine[at..].iter().find(|later| later.acked(flow) > sample.acked(flow));
            ms(sample.t_ns, moved.unwrap_or(last).t_ns)
        }));
    }
    Waits { p99: quantile(&mut all, 0.99), worst: quantile(&mut all, 1.0) }
}

/// The longest time between two looks, ms.
pub fn longest_gap(mine: &[&FlowSample]) -> f64 {
    mine.windows(2).map(|pair| ms(pair[0].t_ns, pair[1].t_ns)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t_ms: u64, flows: &[(u64, bool)]) -> FlowSample {
        FlowSample { t_ns: t_ms * 1_000_000, rank: 0, flows: flows.to_vec(), unsent: vec![true; flows.len()] }
    }

    /// The same, where the first flow has nothing to send.
    fn waiting(t_ms: u64, flows: &[(u64, bool)]) -> FlowSample {
        let mut sample = sample(t_ms, flows);
        sample.unsent[0] = false;
        sample
    }

    #[test]
    fn each_flow_is_released_when_it_is_never_managed_again() {
        let samples = [
            sample(10, &[(0, true), (0, true)]),
            sample(14, &[(0, false), (0, true)]),
            sample(18, &[(0, true), (0, false)]),
            sample(22, &[(0, false), (0, false)]),
        ];
        let since = |ms: u64| released(&mine(&samples, ms * 1_000_000, u64::MAX), ms * 1_000_000);
        assert_eq!(since(10), [12.0, 8.0]);
        assert_eq!(since(20), [0.0, 0.0]);
        assert!(released(&[], 0).is_empty());
        assert!((longest_gap(&mine(&samples, 0, u64::MAX)) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_flow_with_nothing_to_send_is_not_late() {
        let all = |flow| [(0, flow), (0, false)];
        // Managed all the time, but with something to send only until 14 ms, and from 300 to 304 ms.
        let samples = [
            sample(10, &all(true)),
            waiting(14, &all(true)),
            waiting(250, &all(true)),
            sample(300, &all(true)),
            sample(304, &all(false)),
        ];
        assert_eq!(released(&mine(&samples, 0, u64::MAX), 10_000_000), [4.0, 0.0]);
        let held = [sample(10, &all(true)), sample(14, &all(true)), sample(250, &all(true)), sample(300, &all(false))];
        assert_eq!(released(&mine(&held, 0, u64::MAX), 10_000_000), [290.0, 0.0]);
    }

    #[test]
    fn what_is_acknowledged_after_the_orders_end_gives_a_flow_back() {
        // The first is acknowledged while its order stands and waits from there on, the second is kept.
        let samples = [
            sample(10, &[(5, true), (5, true)]),
            sample(14, &[(7, true), (5, true)]),
            sample(18, &[(7, true), (6, true)]),
            sample(22, &[(8, false), (7, false)]),
        ];
        let all = mine(&samples, 0, u64::MAX);
        assert_eq!(kept(&all, 12_000_000), 1);
        assert_eq!(kept(&all, 0), 2);
        assert_eq!(kept(&all, 17_000_000), 0, "what came before the look is not known");
        assert_eq!(kept(&[], 0), 0);
    }

    #[test]
    fn a_wait_ends_with_the_next_acknowledgement() {
        let flows = |first, second| [(first, false), (second, false)];
        let samples: Vec<FlowSample> =
            (0..20_u64).map(|n| sample(n * 50, &flows(n, if n < 6 { 0 } else { n }))).collect();
        let seen = waits(&mine(&samples, 0, u64::MAX));
        assert_eq!(seen, Waits { p99: 300.0, worst: 300.0 });
        // The first flow alone stands still, with nothing to send: it waits for nothing.
        let samples: Vec<FlowSample> = (0..20_u64).map(|n| waiting(n * 50, &flows(0, n))).collect();
        assert_eq!(waits(&mine(&samples, 0, u64::MAX)), Waits { p99: 50.0, worst: 50.0 });
        assert_eq!(waits(&[]), Waits::default());
    }
}
