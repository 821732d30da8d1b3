//! Inequalities that the times of collectives satisfy under every method, and what follows from them at prices.
//!
//! The least mean time is at least Σ price·least, where for each collective the prices of its factors add up to at most
//! 1/K: whoever has the prices needs no solver to see it.
//!
//! Source: section 15 of the allocation page. A link that serves volumes p (in seconds of its capacity) of several
//! collectives has Σ p·T ≥ ½[(Σp)² + Σp²] for any subset of them, whatever the order or the rates.

use sluice_planners_wan::Instance;

/// An inequality Σ factor·T ≥ least that holds for an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The flows wait for one another: the collective of the last ends no sooner than after all of them alone.
    Chain {
        /// Each depends on the one before it.
        flows: Vec<usize>,
    },
    /// The link serves these collectives.
    Link {
        /// The link.
        link: usize,
        /// Some collectives with flows over it, ascending.
        collectives: Vec<usize>,
    },
}

/// A collective's part in an inequality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// The collective.
    pub collective: usize,
    /// What its time is multiplied by, more than 0.
    pub factor: f64,
}

/// An inequality in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Each collective once.
    pub terms: Vec<Term>,
    /// What the terms add up to at least.
    pub least: f64,
}

/// An inequality with its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    /// The inequality.
    pub claim: Claim,
    /// 0 or more.
    pub price: f64,
}

impl Claim {
    /// The inequality in numbers; `None` where the instance has no such chain or link.
    pub fn row(&self, instance: &Instance) -> Option<Row> {
        match self {
            Claim::Chain { flows } => {
                let count = instance.flows().len();
                let known = flows.iter().all(|flow| *flow < count);
                let is_chain = |pair: &[usize]| instance.successors(pair[0]).contains(&pair[1]);
                if !known || !flows.windows(2).all(is_chain) {
                    return None;
                }
                let (first, last) = (*flows.first()?, *flows.last()?);
                let least =
                    instance.flows()[first].release + flows.iter().map(|flow| instance.duration(*flow)).sum::<f64>();
                Some(Row { terms: vec![Term { collective: instance.flows()[last].collective, factor: 1.0 }], least })
            }
            Claim::Link { link, collectives } => {
                let capacity = instance.links().get(*link)?.capacity;
                if !collectives.is_sorted_by(|one, next| one < next) {
                    return None;
                }
                let mut factors = vec![0.0; collectives.len()];
                for flow in instance.flows_on(*link) {
                    let flow = &instance.flows()[*flow];
                    if let Ok(place) = collectives.binary_search(&flow.collective) {
                        factors[place] += flow.size / capacity;
                    }
                }
                if collectives.is_empty() || factors.contains(&0.0) {
                    return None;
                }
                let least = least(factors.iter().copied());
                let terms = collectives.iter().zip(factors).map(|(&collective, factor)| Term { collective, factor });
                Some(Row { terms: terms.collect(), least })
            }
        }
    }
}

/// ½[(Σp)² + Σp²].
pub(crate) fn least(parts: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for part in parts {
        sum += part;
        squares += part * part;
    }
    0.5 * (sum * sum + squares)
}

/// The mean time of collectives that these inequalities prove; prices that are too high for a collective are lowered
/// together. `None` where an inequality is none of the instance or a price is negative or no number.
pub fn proved(instance: &Instance, prices: &[Priced]) -> Option<f64> {
    let mut paid = vec![0.0; instance.collectives()];
    let mut value = 0.0;
    for Priced { claim, price } in prices {
        if !(price.is_finite() && *price >= 0.0) {
            return None;
        }
        let row = claim.row(instance)?;
        value += price * row.least;
        row.terms.iter().for_each(|term| paid[term.collective] += price * term.factor);
    }
    let highest = paid.iter().fold(0.0_f64, |highest, paid| highest.max(*paid)) * paid.len() as f64;
    Some(value / highest.max(1.0))
}
