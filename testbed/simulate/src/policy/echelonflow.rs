//! `echelonflow`: flows of one round need not end together; each has a moment at which it should, and the lateness of
//! the round is made as small as possible.
//!
//! After Pan et al., "Efficient Flow Scheduling in Distributed Deep Learning Training with Echelon Formation" (HotNets
//! 2022). A flow should end at round start + isolated round time + its own `ideal_offset_s`. Between rounds: ascending
//! Γ (the original leaves the rule open). For data-parallel rounds, where all flows should end together, this is `varys`.

use sluice_scenario::Scenario;

use super::madd::{backfill, gamma_left, take_all};
use super::ports::{Ports, Transfer};
use super::under_way::{ByGroup, Heed, released};
use super::varys::{by_gamma, cap};
use crate::scheduler::Scheduler;
use crate::world::{FlowIx, JobIx, World};

/// The lateness is found to this many seconds,
const PRECISION_S: f64 = 1e-6;
/// or this part of it: on a port with next to nothing left it is longer than seconds can be told apart.
const PRECISION: f64 = 1e-12;

/// Least lateness per round.
pub fn echelonflow(scenario: &Scenario) -> impl Scheduler + use<> {
    ByGroup::new(scenario, Heed::Flows, |world, ports, mut group, orders| {
        by_gamma(world, ports, &mut group);
        let flows: Vec<Vec<(FlowIx, Due)>> = group.iter().map(|&j| due(world, j)).collect();
        let rounds: Vec<Vec<Due>> = flows.iter().map(|r| r.iter().map(|f| f.1).collect()).collect();
        let rates = rates(&rounds, ports).into_iter().flatten();
        let given: Vec<(FlowIx, f64)> = flows.iter().flatten().map(|f| f.0).zip(rates).collect();
        cap(&given, orders);
    })
}

/// A transfer and the seconds from now (perhaps negative) at which it should end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// What remains of the flow.
    pub transfer: Transfer,
    /// When it would ideally end, in seconds from now.
    pub ideal_s: f64,
}

/// The smallest lateness τ ≥ 0 (to a microsecond, from above) at which the ports can carry the transfers, each at
/// bytes/(ideal + τ); `None` where a port has nothing left.
pub fn lateness(flows: &[Due], ports: &Ports) -> Option<f64> {
    let transfers: Vec<Transfer> = flows.iter().map(|d| d.transfer).collect();
    let gamma = gamma_left(&transfers, ports);
    if !gamma.is_finite() {
        return None;
    }
    let fits = |tau: f64| {
        let rates: Vec<Transfer> =
            flows.iter().map(|d| Transfer { bytes: d.transfer.bytes / (d.ideal_s + tau), ..d.transfer }).collect();
        flows.iter().all(|d| d.ideal_s + tau > 0.0)
            && Ports::bytes(&rates).iter().all(|&(port, rate)| rate <= ports.left(port) * (1.0 + 1e-12))
    };
    if fits(0.0) {
        return Some(0.0);
    }
    // With everyone given Γ seconds or more the ports can carry all.
    let earliest = flows.iter().map(|d| d.ideal_s).fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = ((-earliest).max(0.0), (gamma - earliest).max(0.0) + PRECISION_S);
    while high - low > PRECISION_S.max(high * PRECISION) {
        let middle = f64::midpoint(low, high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// Rates for rounds in this order, then what is left filled in; `ports` is full again afterwards.
pub fn rates(rounds: &[Vec<Due>], ports: &mut Ports) -> Vec<Vec<f64>> {
    let transfers: Vec<Vec<Transfer>> = rounds.iter().map(|r| r.iter().map(|d| d.transfer).collect()).collect();
    let mut rates = Vec::with_capacity(rounds.len());
    for (round, transfers) in rounds.iter().zip(&transfers) {
        let tau = lateness(round, ports);
        let rate = |d: &Due| tau.map_or(0.0, |tau| d.transfer.bytes / (d.ideal_s + tau));
        let given: Vec<f64> = round.iter().map(rate).collect();
        take_all(transfers, &given, ports);
        rates.push(given);
    }
    backfill(&transfers, &mut rates, ports);
    ports.refill();
    rates
}

fn due(world: &World<'_>, job: JobIx) -> Vec<(FlowIx, Due)> {
    let Some(state) = world.jobs.get(job.0) else { return Vec::new() };
    let began = state.round_began.unwrap_or(world.now).as_secs_f64();
    let ideal = began + state.isolated_round_s - world.now.as_secs_f64();
    let offset = |f: FlowIx| world.flows.get(f.0).map_or(0.0, |f| f.ideal_offset.as_secs_f64());
    let flows = released(world, job).into_iter();
    flows.map(|(f, transfer)| (f, Due { transfer, ideal_s: ideal + offset(f) })).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::madd::madd;
    use crate::policy::ports::PortIx;
    use sluice_scenario::NodeIx;

    fn due(src: usize, dst: usize, bytes: f64, ideal_s: f64) -> Due {
        Due { transfer: Transfer { up: PortIx::up(NodeIx(src)), down: PortIx::down(NodeIx(dst)), bytes }, ideal_s }
    }

    #[test]
    fn stages_are_served_as_they_are_due() {
        let mut ports = Ports::new(vec![10.0; 4]);
        // Due after 1 s and 2 s, 10 bytes each: no lateness if the first gets 5 and … 10/1 + 10/2 = 15 > 10.
        let stages = [due(0, 1, 10.0, 1.0), due(0, 1, 10.0, 2.0)];
        let tau = lateness(&stages, &ports).unwrap_or(f64::NAN);
        // 10/(1+τ) + 10/(2+τ) = 10 at τ = (√5 − 1)/2.
        assert!((tau - (5f64.sqrt() - 1.0) / 2.0).abs() < 2e-6, "{tau}");
        let rates = rates(&[stages.to_vec()], &mut ports);
        assert!(rates[0][0] > rates[0][1] && (rates[0][0] + rates[0][1] - 10.0).abs() < 1e-4);
    }

    #[test]
    fn late_and_blocked() {
        let mut ports = Ports::new(vec![10.0; 4]);
        // Due five seconds ago and needing two: seven late.
        let tau = lateness(&[due(0, 1, 20.0, -5.0)], &ports).unwrap_or(f64::NAN);
        assert!((tau - 7.0).abs() < 2e-6, "{tau}");
        // Next to nothing left is next to no rate, not a search without end.
        ports.take(&due(0, 1, 1.0, 0.0).transfer, 10.0 - 2e-8);
        assert!(lateness(&[due(0, 1, 2e4, 1.0)], &ports).is_some_and(|tau| (0.9e12..1.1e12).contains(&tau)));
        ports.take(&due(0, 1, 1.0, 0.0).transfer, 2e-8);
        assert_eq!(lateness(&[due(0, 1, 20.0, 1.0)], &ports), None);
    }

    proptest! {
        /// With one ideal moment for all and no slack, this is MADD with backfill.
        #[test]
        fn one_moment_for_all_is_madd(
            flows in prop::collection::vec(prop::collection::vec((0usize..4, 1usize..4, 1u32..100), 1..5), 1..4),
        ) {
            let mut ports = Ports::new(vec![10.0; 8]);
            let round = |r: &Vec<(usize, usize, u32)>| -> Vec<Due> {
                r.iter().map(|&(s, d, b)| due(s, (s + d) % 4, f64::from(b), 0.0)).collect()
            };
            let rounds: Vec<Vec<Due>> = flows.iter().map(round).collect();
            let transfers: Vec<Vec<Transfer>> =
                rounds.iter().map(|r| r.iter().map(|d| d.transfer).collect()).collect();
            let given = rates(&rounds, &mut ports);
            let want = madd(&transfers, &mut ports);
            for (a, b) in given.iter().flatten().zip(want.iter().flatten()) {
                prop_assert!((a - b).abs() <= 1e-3, "{a} {b}");
            }
        }

        /// A microsecond less would not fit.
        #[test]
        fn least(flows in prop::collection::vec((0usize..4, 1usize..4, 1u32..100, -5i32..5), 1..6)) {
            let ports = Ports::new(vec![10.0; 8]);
            let flows: Vec<Due> =
                flows.iter().map(|&(s, d, b, i)| due(s, (s + d) % 4, f64::from(b), f64::from(i))).collect();
            let tau = lateness(&flows, &ports).unwrap_or(f64::NAN);
            let over = |tau: f64| {
                let mut used = [0.0f64; 8];
                for d in &flows {
                    let rate = d.transfer.bytes / (d.ideal_s + tau);
                    used[d.transfer.up.0] += rate;
                    used[d.transfer.down.0] += rate;
                }
                flows.iter().any(|d| d.ideal_s + tau <= 0.0) || used.iter().any(|&u| u > 10.0 * (1.0 + 1e-9))
            };
            prop_assert!(tau >= 0.0 && !over(tau));
            prop_assert!(tau == 0.0 || over(tau - 3e-6));
        }
    }
}
