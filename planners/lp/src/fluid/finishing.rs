//! From a master's floats to fractions: what it mixes, solved once more in exact numbers where that is not too much, else
//! rounded so that parts add up.

use super::master::{Column, Staged};
use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::fluid::exact;
use sluice_planners::fluid::finish::{self, ExactColumn};
use sluice_planners::fluid::folding::Folding;
use sluice_planners::fluid::instance::Instance;
use sluice_planners::fluid::to_plan::Mixed;

/// Columns that exact arithmetic looks at, at most.
const MAX_EXACT_COLUMNS: usize = 400;

/// What a master came to.
pub struct Finish<'a> {
    pub instance: &'a Instance<'a>,
    /// The classes of jobs.
    pub folding: &'a Folding,
    pub columns: &'a [Column],
    /// The stage of the time.
    pub time: &'a Staged,
    /// The stage of the cost, if there was one.
    pub cost: Option<&'a Staged>,
}

/// What exact arithmetic made of it.
pub struct Exact {
    /// Per byte, or abstract unit.
    pub time: Rational,
    /// The least within that time.
    pub cost: Option<Rational>,
    /// What takes that time, and costs that.
    pub mixed: Vec<Mixed>,
    /// By limit what proves the time.
    pub prices: Vec<Rational>,
    /// By limit what proves the cost.
    pub cost_prices: Option<Vec<Rational>>,
}

impl Finish<'_> {
    /// The mixture in exact numbers, where that is not too much.
    pub fn exactly(&self, run: &Run<'_>) -> Option<Exact> {
        let rates = self.rates()?;
        let mut places: Vec<usize> = self.time.tight.clone();
        places.extend(self.cost.iter().flat_map(|cost| &cost.tight));
        places.sort_unstable();
        places.dedup();
        if places.len() > MAX_EXACT_COLUMNS {
            return None;
        }
        let columns: Vec<ExactColumn> = places.iter().map(|place| self.column(&self.columns[*place])).collect();
        let jobs = if self.folding.shares_roots { 1 } else { self.folding.classes.len() };
        let scale = self.instance.network.scale;
        let time = finish::least_time(&rates, &columns, jobs, self.time.upper / scale, run)?;
        let cost = match self.cost {
            Some(cost) => Some(finish::least_cost(&rates, &columns, jobs, &time.value, cost.upper, run)?),
            None => None,
        };
        let parts = cost.as_ref().map_or(&time.parts, |cost| &cost.parts);
        let mixed = places.iter().zip(parts).filter(|(_, part)| part.is_positive());
        let mixed = mixed.map(|(place, part)| {
            let column = &self.columns[*place];
            Mixed { class: column.class, part: part.clone(), routes: column.routes.clone() }
        });
        let mixed: Vec<Mixed> = mixed.collect();
        sluice_formats::quantity::common_denominator(mixed.iter().map(|mixed| &mixed.part))?;
        let by_limit = |prices: &[Rational]| -> Vec<Rational> {
            let of = |class: &u32| {
                let size = Rational::from(self.folding.sizes[*class as usize] as u64);
                prices[*class as usize].checked_div(&size).unwrap_or(Rational::ZERO)
            };
            self.folding.limits.iter().map(of).collect()
        };
        Some(Exact {
            time: time.value,
            cost: cost.as_ref().map(|cost| cost.value.clone()),
            mixed,
            prices: by_limit(&time.prices),
            cost_prices: cost.map(|cost| by_limit(&cost.prices)),
        })
    }

    /// The rate of each class of limits, in bytes or abstract units.
    fn rates(&self) -> Option<Vec<Option<Rational>>> {
        let topology = self.instance.asked.topology;
        let single = topology.links().iter().filter_map(|link| link.capacity.finite().cloned().map(Some));
        let joint = topology.groups().iter().map(|group| group.capacity.finite().cloned());
        let mut rates = vec![None; self.folding.sizes.len()];
        for (class, rate) in self.folding.limits.iter().zip(single.chain(joint)) {
            *rates.get_mut(*class as usize)? = rate;
        }
        Some(rates)
    }

    /// A column with its loads counted instead of added up in floats.
    fn column(&self, column: &Column) -> ExactColumn {
        let network = &self.instance.network;
        let class = &self.folding.classes[column.class];
        let counts = self.folding.counts(network);
        let times = Rational::from(class.images.len() as u64);
        let mut loads: std::collections::BTreeMap<u32, Rational> = std::collections::BTreeMap::new();
        let mut cost = Rational::ZERO;
        for (block, route) in class.job.blocks.iter().zip(&column.routes) {
            for (edge, crossed) in route.usage() {
                let crossed = &Rational::from(crossed as u64) * &block.units;
                cost += &(&crossed * &self.instance.asked.topology.links()[edge as usize].cost);
                for (limit, count) in &counts[edge as usize] {
                    let over = Rational::new(*count, self.folding.sizes[*limit as usize] as i128);
                    let part = over.unwrap_or(Rational::ZERO);
                    *loads.entry(*limit).or_insert(Rational::ZERO) += &(&(&crossed * &part) * &times);
                }
            }
        }
        let shares_roots = self.folding.shares_roots;
        ExactColumn {
            job: if shares_roots { 0 } else { column.class },
            fills: if shares_roots { times.clone() } else { Rational::ONE },
            loads: loads.into_iter().collect(),
            cost: &cost * &times,
        }
    }

    /// The mixture of the floats, with parts that add up exactly.
    pub fn rounded(&self) -> Vec<Mixed> {
        let staged = self.cost.unwrap_or(self.time);
        let mut mixed = Vec::new();
        let jobs = if self.folding.shares_roots { 1 } else { self.folding.classes.len() };
        for job in 0..jobs {
            let used: Vec<usize> = (0..staged.parts.len())
                .filter(|place| self.folding.shares_roots || self.columns[*place].class == job)
                .filter(|place| staged.parts[*place] > 1e-9)
                .collect();
            let images = |place: &usize| self.folding.classes[self.columns[*place].class].images.len() as f64;
            let fills = |place: &usize| if self.folding.shares_roots { images(place) } else { 1.0 };
            let weights: Vec<f64> = used.iter().map(|place| staged.parts[*place] * fills(place)).collect();
            for (place, part) in used.iter().zip(exact::weights(&weights)) {
                let fills = Rational::from(fills(place) as u64);
                let column = &self.columns[*place];
                let part = part.checked_div(&fills).unwrap_or(Rational::ZERO);
                mixed.push(Mixed { class: column.class, part, routes: column.routes.clone() });
            }
        }
        mixed
    }
}
