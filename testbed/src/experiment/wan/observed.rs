//! What a run shows: when each collective was done, and which flows did not wait.

use sluice_plan::follow::Lane;
use sluice_report::FlowTimes;

/// A collective: the lanes that its plan has, and when their flows went.
#[derive(Clone, Copy, Debug)]
pub struct Collective<'a> {
    /// By their numbers in the plan.
    pub lanes: &'a [Lane],
    /// Of one iteration.
    pub flows: &'a [FlowTimes],
}

/// What a run showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// By collective, s: from the first beginning of all to the end of its last flow.
    pub t: Vec<f64>,
    /// Their mean, s.
    pub mean: f64,
    /// Flows that began before something they wait for, and whose end their sender sees, had ended.
    pub violations: usize,
    /// The mean time of a flow, s.
    pub flow_s: f64,
}

/// Puts together what the members of all collectives of a run said; `None`: of some flow they did not say all.
pub fn observe(collectives: &[Collective<'_>]) -> Option<Observed> {
    let times = collectives.iter().map(times).collect::<Option<Vec<_>>>()?;
    let all = || times.iter().flatten().flatten();
    let begin = all().map(|(began, _)| *began).fold(f64::INFINITY, f64::min);
    let last =
        |lanes: &Vec<Vec<(f64, f64)>>| lanes.iter().flatten().map(|(_, ended)| *ended).fold(begin, f64::max) - begin;
    let t: Vec<f64> = times.iter().map(last).collect();
    let violations = collectives.iter().zip(&times).map(|(of, times)| violations(of.lanes, times)).sum();
    let flow_s = all().map(|(began, ended)| ended - began).sum::<f64>() / all().count() as f64;
    Some(Observed { mean: t.iter().sum::<f64>() / t.len() as f64, t, violations, flow_s })
}

/// By lane and place in it when a flow began and ended.
fn times(of: &Collective<'_>) -> Option<Vec<Vec<(f64, f64)>>> {
    let time = |lane: usize, flow: usize| {
        let seen = of.flows.iter().find(|seen| (seen.iteration, seen.lane, seen.flow) == (0, lane, flow))?;
        seen.began_s.zip(seen.ended_s)
    };
    let lane = |(number, lane): (usize, &Lane)| (0..lane.flows.len()).map(|flow| time(number, flow)).collect();
    of.lanes.iter().enumerate().map(lane).collect()
}

fn violations(lanes: &[Lane], times: &[Vec<(f64, f64)>]) -> usize {
    let hasty = |lane: &Lane, place: usize, began: f64| {
        let here = lane.flows[place].after.iter().filter(|arrival| lanes[arrival.lane].to == lane.from);
        let mut awaited = here.flat_map(|arrival| {
            let flows = lanes[arrival.lane].flows.iter().zip(&times[arrival.lane]);
            flows.filter(|(flow, _)| flow.end <= arrival.bytes).map(|(_, (_, ended))| *ended)
        });
        awaited.any(|ended| began < ended)
    };
    let of_lane = |(lane, times): (&Lane, &Vec<(f64, f64)>)| {
        times.iter().enumerate().filter(|(place, (began, _))| hasty(lane, *place, *began)).count()
    };
    lanes.iter().zip(times).map(of_lane).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_plan::follow::{Arrival, Transfer};

    /// a → b, then b → a, twice.
    fn lanes() -> Vec<Lane> {
        let flow = |end, after: &[(usize, u64)]| {
            let after = after.iter().map(|&(lane, bytes)| Arrival { lane, bytes }).collect();
            Transfer { end, bits_per_second: None, place: None, after }
        };
        let there = Lane { from: 0, to: 1, flows: vec![flow(10, &[]), flow(20, &[(1, 5)])] };
        let back = Lane { from: 1, to: 0, flows: vec![flow(5, &[(0, 10)]), flow(9, &[(0, 20)])] };
        vec![there, back]
    }

    fn seen(times: [(f64, f64); 4]) -> Vec<FlowTimes> {
        let of = |(at, (began, ended)): (usize, (f64, f64))| FlowTimes {
            iteration: 0,
            lane: at % 2,
            flow: at / 2,
            began_s: Some(began),
            ended_s: Some(ended),
        };
        times.into_iter().enumerate().map(of).collect()
    }

    #[test]
    fn a_collective_takes_until_its_last_flow_s_end_from_the_first_beginning_of_all() {
        let lanes = lanes();
        let first = seen([(1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (4.5, 5.0)]);
        let second = seen([(1.5, 2.0), (2.0, 3.0), (3.0, 4.0), (4.0, 6.0)]);
        let both = [&first, &second].map(|flows| Collective { lanes: &lanes, flows });
        let observed = observe(&both).unwrap();
        assert_eq!((observed.t.as_slice(), observed.mean, observed.violations), (&[4.0, 5.0][..], 4.5, 0));
        assert!((observed.flow_s - 1.0).abs() < 0.2, "{observed:?}");
    }

    #[test]
    fn a_flow_that_did_not_wait_is_counted_once() {
        let lanes = lanes();
        let mut flows = seen([(1.0, 2.0), (1.9, 3.0), (2.5, 4.0), (3.5, 5.0)]);
        assert_eq!(observe(&[Collective { lanes: &lanes, flows: &flows }]).unwrap().violations, 3);
        flows[3].began_s = None;
        assert_eq!(observe(&[Collective { lanes: &lanes, flows: &flows }]), None);
        flows.pop();
        assert_eq!(observe(&[Collective { lanes: &lanes, flows: &flows }]), None);
    }
}
