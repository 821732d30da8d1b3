//! `perm`: strict priority by a fixed order of collectives, found by exchanging pairs of them.

use crate::instance::Instance;
use crate::refusal::Refusal;
use crate::rules::Priority;
use crate::rules::priority::{Rest, ranks};
use crate::simulate::{Outcome, simulate};

/// Rounds over all pairs at most.
const ROUNDS: usize = 3;
/// Steps of all simulations together at most, in links looked at: some seconds.
const WORK: usize = 400_000_000;
/// An order counts as better from this relative gain on: below it is rounding.
const GAIN: f64 = 1e-12;

/// An order of collectives, and what it achieves.
#[derive(Clone, Debug, PartialEq)]
pub struct Perm {
    /// The collectives, the first with the highest priority.
    pub order: Vec<usize>,
    /// The ranks of the flows that follow.
    pub rank: Vec<usize>,
    /// What is achieved.
    pub outcome: Outcome,
    /// Orders that were simulated.
    pub simulated: usize,
}

/// The collectives by the least that each has to do, smallest bound first.
pub fn smallest_bound_first(instance: &Instance) -> Vec<usize> {
    let sizes: Vec<f64> = instance.flows().iter().map(|flow| flow.size).collect();
    let mut rest = Rest::new(instance);
    let bounds: Vec<f64> = (0..instance.collectives()).map(|collective| rest.bound(collective, &sizes)).collect();
    let mut order: Vec<usize> = (0..instance.collectives()).collect();
    order.sort_by(|&a, &b| bounds[a].total_cmp(&bounds[b]).then(a.cmp(&b)));
    order
}

/// Begins with the smallest bound first and keeps every exchange of two collectives that helps, for at most three rounds
/// over all pairs, until `stop` says so, or until a large instance has taken its share of time.
///
/// # Errors
/// What the simulator refuses: nothing, for an instance whose numbers stay finite.
pub fn search(instance: &Instance, stop: &mut dyn FnMut() -> bool) -> Result<Perm, Refusal> {
    let mut order = smallest_bound_first(instance);
    let (mut rank, mut outcome) = judged(instance, &order)?;
    let mut simulated = 1;
    let links: usize = instance.flows().iter().map(|flow| flow.path.len()).sum();
    let most = WORK / links.saturating_mul(instance.groups().len()).max(1);
    'rounds: for _ in 0..ROUNDS {
        let mut better = false;
        for first in 0..order.len() {
            for second in first + 1..order.len() {
                if simulated > most || stop() {
                    break 'rounds;
                }
                order.swap(first, second);
                let tried = judged(instance, &order)?;
                simulated += 1;
                if tried.1.mean < outcome.mean * (1.0 - GAIN) {
                    (rank, outcome) = tried;
                    better = true;
                } else {
                    order.swap(first, second);
                }
            }
        }
        if !better {
            break;
        }
    }
    Ok(Perm { order, rank, outcome, simulated })
}

fn judged(instance: &Instance, order: &[usize]) -> Result<(Vec<usize>, Outcome), Refusal> {
    let mut place = vec![0; order.len()];
    for (at, &collective) in order.iter().enumerate() {
        place[collective] = at;
    }
    let rank = ranks(instance, &place)?;
    let outcome = simulate(instance, &mut Priority::new(instance, rank.clone())?)?;
    Ok((rank, outcome))
}
