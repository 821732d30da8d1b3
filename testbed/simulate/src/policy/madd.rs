//! MADD, minimum allocation for the desired duration: every transfer of a coflow ends together, at the earliest moment
//! its busiest port allows; what is left over is filled in afterwards.
//!
//! After Chowdhury, Zhong and Stoica, "Efficient Coflow Scheduling with Varys" (SIGCOMM 2014). On the big switch only:
//! links inside the network are not looked at, there the network shares as it always does.

use super::ports::{Ports, Transfer};

/// Rates for coflows in this order, bytes per second per transfer. Each gets what it needs to end together on what the
/// earlier ones left, nothing at all where a port is taken; then, in the same order, every transfer gets what both its
/// ports still have. No port is given more than it has. `ports` is full again afterwards.
///
/// Costs O(F log F) for F transfers.
pub fn madd(coflows: &[Vec<Transfer>], ports: &mut Ports) -> Vec<Vec<f64>> {
    let mut rates: Vec<Vec<f64>> = coflows.iter().map(|c| together(c, ports)).collect();
    backfill(coflows, &mut rates, ports);
    ports.refill();
    rates
}

/// Rates with which the transfers of one coflow end together as early as what is left of the ports allows; takes them.
fn together(coflow: &[Transfer], ports: &mut Ports) -> Vec<f64> {
    let gamma = gamma_left(coflow, ports);
    let rate = |t: &Transfer| if gamma.is_finite() && gamma > 0.0 { t.bytes / gamma } else { 0.0 };
    let rates: Vec<f64> = coflow.iter().map(rate).collect();
    take_all(coflow, &rates, ports);
    rates
}

/// The time the transfers need on what is left of the ports; infinite where a port has nothing left.
pub fn gamma_left(coflow: &[Transfer], ports: &Ports) -> f64 {
    let seconds = |&(port, bytes): &(_, f64)| if bytes > 0.0 { bytes / ports.left(port) } else { 0.0 };
    Ports::bytes(coflow).iter().map(seconds).fold(0.0, f64::max)
}

/// Takes the rates of a coflow from the ports.
pub fn take_all(coflow: &[Transfer], rates: &[f64], ports: &mut Ports) {
    for (transfer, &rate) in coflow.iter().zip(rates) {
        if rate > 0.0 {
            ports.take(transfer, rate);
        }
    }
}

/// Adds to every transfer, in order, what both its ports have left.
pub fn backfill(coflows: &[Vec<Transfer>], rates: &mut [Vec<f64>], ports: &mut Ports) {
    for (coflow, rates) in coflows.iter().zip(rates) {
        for (transfer, rate) in coflow.iter().zip(rates) {
            let more = ports.left(transfer.up).min(ports.left(transfer.down));
            if more > 0.0 {
                *rate += more;
                ports.take(transfer, more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::ports::PortIx;
    use sluice_scenario::NodeIx;

    fn transfer(src: usize, dst: usize, bytes: f64) -> Transfer {
        Transfer { up: PortIx::up(NodeIx(src)), down: PortIx::down(NodeIx(dst)), bytes }
    }

    #[test]
    fn the_first_ends_together_the_second_takes_the_rest() {
        let mut ports = Ports::new(vec![10.0; 6]);
        let first = vec![transfer(0, 1, 20.0), transfer(0, 2, 5.0)];
        let second = vec![transfer(0, 1, 5.0), transfer(2, 1, 5.0)];
        // Γ of the first is 2.5 s on h0's port; the second has nothing left there, so it waits as a whole, and what its
        // second transfer gets is backfill: h1 has 2 left.
        assert_eq!(madd(&[first, second], &mut ports), [vec![8.0, 2.0], vec![0.0, 2.0]]);
        assert_eq!(ports.left(PortIx(0)), 10.0);
    }

    fn coflows() -> impl Strategy<Value = Vec<Vec<Transfer>>> {
        let one = (0usize..5, 1usize..5, 1u32..1000).prop_map(|(s, d, b)| transfer(s, (s + d) % 5, f64::from(b)));
        prop::collection::vec(prop::collection::vec(one, 1..6), 1..6)
    }

    proptest! {
        /// No port gives more than it has; nothing that could be given is kept; the first coflow is as fast as alone.
        #[test]
        fn full_and_never_over(coflows in coflows(), rates in prop::collection::vec(1u32..20, 10)) {
            let rate: Vec<f64> = rates.iter().map(|&r| f64::from(r)).collect();
            let mut ports = Ports::new(rate.clone());
            let given = madd(&coflows, &mut ports);
            let mut used = [0.0; 10];
            for (t, &r) in coflows.iter().flatten().zip(given.iter().flatten()) {
                prop_assert!(r >= 0.0 && r.is_finite());
                used[t.up.0] += r;
                used[t.down.0] += r;
            }
            for (u, r) in used.iter().zip(&rate) {
                prop_assert!(*u <= r * (1.0 + 1e-9), "{u} of {r}");
            }
            let full = |p: PortIx| used[p.0] >= rate[p.0] * (1.0 - 1e-8);
            for t in coflows.iter().flatten() {
                prop_assert!(full(t.up) || full(t.down));
            }
            let gamma = ports.gamma(&coflows[0]);
            for (t, &r) in coflows[0].iter().zip(&given[0]) {
                prop_assert!(t.bytes / r <= gamma * (1.0 + 1e-9));
            }
        }
    }
}
