//! `fair`: every flow an equal share, as ideal TCP would; no classes, no caps except for what loss does to TCP.
//!
//! The rule of the paper for flows that share a link without a scheduler. Simplified: no bursts, no convergence time;
//! with `tcp`, loss is a cap by the response function of that congestion control (`simulation.md` section 4.6), for
//! orientation only; without, a lossy path takes its fraction of the rate and nothing more, as from everybody.

use sluice_scenario::scheduler::FairOptions;
use sluice_scenario::{Scenario, Tcp};
use sluice_schedule::Nanos;

use crate::scheduler::{Change, Needs, Order, Orders, Scheduler};
use crate::world::{Flow, World};

/// Payload bytes of a full segment.
const SEGMENT_BYTES: f64 = 1448.0;
/// From this loss on BBR takes loss for congestion.
const BBR_GIVES_UP: f64 = 0.15;

/// Every flow has an equal share.
#[derive(Clone, Debug)]
pub struct Fair {
    options: FairOptions,
    /// Some link loses bytes: flows have to be looked at.
    lossy: bool,
}

impl Fair {
    /// With the options of `[scheduler.fair]`.
    pub fn new(scenario: &Scenario) -> Fair {
        let lossy = scenario.network.links.iter().any(|l| l.loss > 0.0);
        Fair { options: scenario.schedulers.options.fair.clone(), lossy }
    }

    fn cap(&self, scenario: &Scenario, flow: &Flow) -> f64 {
        let Some(tcp) = self.options.tcp else { return f64::INFINITY };
        let delays = flow.path.iter().filter_map(|&l| scenario.network.link(l)).map(|l| l.delay);
        let delay = delays.fold(Nanos::ZERO, Nanos::plus);
        loss_cap(tcp, flow.loss, delay.times(2).plus(self.options.queue))
    }
}

/// Bytes per second that a congestion control reaches at a loss probability and a round-trip time; infinite where loss
/// does not limit it.
pub fn loss_cap(tcp: Tcp, loss: f64, rtt: Nanos) -> f64 {
    let rtt = rtt.as_secs_f64();
    if loss <= 0.0 || rtt <= 0.0 {
        return f64::INFINITY;
    }
    let per_rtt = SEGMENT_BYTES / rtt;
    let reno = per_rtt * 1.5f64.sqrt() / loss.sqrt();
    match tcp {
        Tcp::Reno | Tcp::Dctcp => reno,
        // The response function of RFC 8312 with C = 0.4, β = 0.7.
        Tcp::Cubic => reno.max(per_rtt * 1.054 * (rtt / loss).powf(0.75)),
        Tcp::Bbr if loss < BBR_GIVES_UP => f64::INFINITY,
        Tcp::Bbr => reno,
    }
}

impl Scheduler for Fair {
    fn efficiency(&self) -> f64 {
        self.options.efficiency
    }

    fn needs(&self) -> Needs {
        Needs::CHANGES
    }

    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        if !self.lossy || self.options.tcp.is_none() {
            return;
        }
        for change in changes {
            if let Change::JobStarted(job) = *change {
                for (ix, flow) in world.flows_of(job) {
                    orders.set(ix, Order { cap: self.cap(world.scenario, flow), ..Order::default() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_hurts_reno_most_and_bbr_not_at_all() {
        let rtt = Nanos(10_000_000);
        for loss in [1e-6, 1e-4, 1e-2] {
            let [reno, cubic, bbr] = [Tcp::Reno, Tcp::Cubic, Tcp::Bbr].map(|t| loss_cap(t, loss, rtt));
            assert!(reno <= cubic && cubic < bbr, "{loss}: {reno} {cubic} {bbr}");
        }
        assert_eq!(loss_cap(Tcp::Reno, 0.0, rtt), f64::INFINITY);
        assert_eq!(loss_cap(Tcp::Bbr, 0.2, rtt), loss_cap(Tcp::Reno, 0.2, rtt));
    }

    #[test]
    fn the_formulas_by_hand() {
        // 1448 bytes per 1 ms, √1.5 / √0.0001 = 122.47 segments in flight.
        let reno = loss_cap(Tcp::Reno, 1e-4, Nanos::from_millis(1));
        assert!((reno / 177_343_057.0 - 1.0).abs() < 1e-6, "{reno}");
        // At 100 ms the cubic term is the larger: 1.054 · (0.1 / 0.0001)^¾ = 187.43 segments per round trip.
        let cubic = loss_cap(Tcp::Cubic, 1e-4, Nanos::from_millis(100));
        assert!((cubic / (14_480.0 * 187.430_9) - 1.0).abs() < 1e-5, "{cubic}");
    }
}
