//! Flows replayed plainly, in floats: at every event everything is looked up again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sluice_formats::quantity::{Capacity, Rational, size};
use sluice_formats::topology::Topology;

struct Flow {
    id: u64,
    collective: u64,
    group: u64,
    order: u64,
    size: f64,
    path: Vec<usize>,
    release: f64,
    pred: Vec<u64>,
    rate: Option<f64>,
    start: f64,
    rank: u64,
}

/// The rates of the ready flows, by them and by what is left of every flow.
type Rule<'a> = &'a dyn Fn(&[usize], &[f64]) -> Vec<f64>;

pub struct Naive {
    /// Bytes per second by link; infinite without limit.
    capacities: Vec<f64>,
    flows: Vec<Flow>,
    weights: BTreeMap<(u64, u64), f64>,
    execution: String,
}

/// A number of a plan, written as one or as text.
fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some(text) => Rational::parse(text).expect("a number").to_f64(),
        None => value.as_f64().expect("a number"),
    }
}

fn rate(value: &Value) -> f64 {
    let (capacity, _) = Capacity::parse(value.as_str().expect("a rate")).expect("a rate");
    capacity.finite().map_or(f64::INFINITY, Rational::to_f64)
}

/// Completion times by collective, of a plan that the checker finds no fault with.
pub fn times(plan: &Value) -> Vec<f64> {
    Naive::new(plan).times()
}

/// Are two times the same within a millionth?
pub fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1.001e-6 * a.max(b)
}

impl Naive {
    pub fn new(plan: &Value) -> Naive {
        let topology = Topology::read(plan["topology"]["inline"].to_string().as_bytes(), "t").expect("a topology");
        let finite = |capacity: &Capacity| capacity.finite().map_or(f64::INFINITY, Rational::to_f64);
        let capacities = topology.links().iter().map(|link| finite(&link.capacity)).collect();
        let content = &plan["content"];
        let whole = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0);
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let flow = |of: &Value| Flow {
            id: whole(of, "id"),
            collective: whole(of, "collective"),
            group: whole(of, "group"),
            order: whole(of, "order"),
            size: size(of["size"].as_str().expect("a size")).expect("a size").to_f64(),
            path: list(&of["path"]).iter().map(|link| link.as_u64().expect("a link") as usize).collect(),
            release: of.get("release_s").map_or(0.0, number),
            pred: list(&of["pred"]).iter().map(|id| id.as_u64().expect("an id")).collect(),
            rate: of.get("rate").map(rate).filter(|rate| *rate > 0.0 && rate.is_finite()),
            start: of.get("start_s").map_or(0.0, number),
            rank: whole(of, "rank"),
        };
        let weight = |of: &Value| Some(((whole(of, "collective"), whole(of, "group")), number(of.get("weight")?)));
        Naive {
            capacities,
            flows: list(&content["flows"]).iter().map(flow).collect(),
            weights: list(&content["groups"]).iter().filter_map(weight).collect(),
            execution: content["execution"].as_str().expect("an execution").to_owned(),
        }
    }

    /// Bytes per second by link; infinite without limit.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }
    /// Bytes of a collective over a link.
    pub fn volume(&self, collective: u64, link: usize) -> f64 {
        let on = |flow: &&Flow| flow.collective == collective && flow.path.contains(&link);
        self.flows.iter().filter(on).map(|flow| flow.size).sum()
    }
    /// By collective, when its last chain ends if every flow has its route for itself.
    pub fn alone_by_collective(&self) -> BTreeMap<u64, f64> {
        let mut places: Vec<usize> = (0..self.flows.len()).collect();
        places.sort_by_key(|flow| self.flows[*flow].order);
        let mut ends: BTreeMap<(u64, u64), f64> = BTreeMap::new();
        for flow in places {
            let of = &self.flows[flow];
            let end = ends.entry((of.collective, of.group)).or_insert(0.0);
            *end = end.max(of.release) + of.size / self.alone(flow);
        }
        let mut times = BTreeMap::new();
        for ((collective, _), end) in ends {
            let time: &mut f64 = times.entry(collective).or_insert(0.0);
            *time = time.max(end);
        }
        times
    }
    fn alone(&self, flow: usize) -> f64 {
        self.flows[flow].path.iter().map(|link| self.capacities[*link]).fold(f64::INFINITY, f64::min)
    }
    /// The flows that go first.
    fn before(&self, flow: usize) -> Vec<usize> {
        let of = &self.flows[flow];
        let first = |other: &Flow| {
            let chain = (other.collective, other.group) == (of.collective, of.group) && other.order + 1 == of.order;
            chain || of.pred.contains(&other.id)
        };
        (0..self.flows.len()).filter(|other| first(&self.flows[*other])).collect()
    }
    /// What a flow has at least.
    fn guaranteed(&self, flow: usize) -> f64 {
        let of = &self.flows[flow];
        if self.weights.is_empty() {
            return of.rate.expect("a rate");
        }
        let share = |link: &usize| {
            let users: BTreeSet<(u64, u64)> = self
                .flows
                .iter()
                .filter(|other| other.path.contains(link))
                .map(|of| (of.collective, of.group))
                .collect();
            let sum: f64 = users.iter().map(|group| self.weights[group]).sum();
            self.capacities[*link] * self.weights[&(of.collective, of.group)] / sum
        };
        of.path.iter().map(share).fold(f64::INFINITY, f64::min)
    }

    fn times(&self) -> Vec<f64> {
        let ends = match self.execution.as_str() {
            "static" => self.replay(&|ready, _| ready.iter().map(|flow| self.guaranteed(*flow)).collect()),
            "work_conserving" => self.replay(&|ready, _| {
                let rates: Vec<f64> = ready.iter().map(|flow| self.guaranteed(*flow)).collect();
                self.fill(ready, &rates, &rates)
            }),
            "max_min" => self.replay(&|ready, _| {
                let of = |flow: &usize| self.weights[&(self.flows[*flow].collective, self.flows[*flow].group)];
                self.fill(ready, &vec![0.0; ready.len()], &ready.iter().map(of).collect::<Vec<_>>())
            }),
            "priority" => self.replay(&|ready, left| {
                self.one_by_one(ready, &|flow| {
                    (self.flows[flow].rank, 0, -key(self.chain(flow, left)), self.flows[flow].id)
                })
            }),
            "priority_recomputed" => self.replay(&|ready, left| {
                let urgency: BTreeMap<u64, i64> =
                    self.flows.iter().map(|of| (of.collective, key(self.urgency(of.collective, left)))).collect();
                self.one_by_one(ready, &|flow| {
                    let of = &self.flows[flow];
                    (urgency[&of.collective] as u64, of.collective, -key(self.chain(flow, left)), of.id)
                })
            }),
            "order_preserving" => self.in_order(),
            other => panic!("{other}"),
        };
        let mut times = BTreeMap::new();
        for (flow, end) in self.flows.iter().zip(ends) {
            let time: &mut f64 = times.entry(flow.collective).or_insert(0.0);
            *time = time.max(end);
        }
        times.into_values().collect()
    }

    /// From event to event, with rates for those that are ready.
    fn replay(&self, rates: Rule<'_>) -> Vec<f64> {
        let mut left: Vec<f64> = self.flows.iter().map(|flow| flow.size).collect();
        let mut ends = vec![f64::NAN; left.len()];
        let mut now = 0.0;
        loop {
            let done = |flow: &usize| !ends[*flow].is_nan();
            let unlocked: Vec<usize> =
                (0..left.len()).filter(|flow| !done(flow) && self.before(*flow).iter().all(done)).collect();
            if unlocked.is_empty() {
                assert!(ends.iter().all(|end| !end.is_nan()), "a circle");
                return ends;
            }
            let (ready, held): (Vec<usize>, Vec<usize>) =
                unlocked.into_iter().partition(|flow| self.flows[*flow].release <= now);
            let release = held.iter().map(|flow| self.flows[*flow].release).fold(f64::INFINITY, f64::min);
            let rates = rates(&ready, &left);
            let needs: Vec<f64> = ready.iter().zip(&rates).map(|(flow, rate)| left[*flow] / rate).collect();
            let step = needs.iter().copied().fold(release - now, f64::min);
            assert!(step.is_finite(), "nobody moves");
            for ((flow, rate), need) in ready.into_iter().zip(rates).zip(needs) {
                if need <= step * (1.0 + 1e-12) {
                    (left[flow], ends[flow]) = (0.0, now + step);
                } else {
                    left[flow] -= rate * step;
                }
            }
            now = if step == release - now { release } else { now + step };
        }
    }

    /// Weighted max-min of what is left beside `base`.
    fn fill(&self, ready: &[usize], base: &[f64], weights: &[f64]) -> Vec<f64> {
        let mut rates = base.to_vec();
        let mut rising: BTreeSet<usize> = (0..ready.len()).collect();
        rising.retain(|place| {
            let limited = self.alone(ready[*place]).is_finite();
            if !limited {
                rates[*place] = f64::INFINITY;
            }
            limited
        });
        while !rising.is_empty() {
            let on = |link: usize| (0..ready.len()).filter(move |place| self.flows[ready[*place]].path.contains(&link));
            let level = |link: usize| {
                let left = self.capacities[link] - on(link).map(|place| rates[place]).sum::<f64>();
                let weight: f64 = on(link).filter(|place| rising.contains(place)).map(|place| weights[place]).sum();
                if weight > 0.0 && left.is_finite() { left.max(0.0) / weight } else { f64::INFINITY }
            };
            let levels: Vec<f64> = (0..self.capacities.len()).map(level).collect();
            let least = levels.iter().copied().fold(f64::INFINITY, f64::min);
            let full: Vec<usize> =
                (0..levels.len()).filter(|link| levels[*link] <= least * (1.0 + 1e-9) + 1e-9).collect();
            for place in &rising {
                rates[*place] += least * weights[*place];
            }
            rising.retain(|place| !self.flows[ready[*place]].path.iter().any(|link| full.contains(link)));
        }
        rates
    }

    /// What one after the other finds on its route.
    fn one_by_one<K: Ord>(&self, ready: &[usize], key: &dyn Fn(usize) -> K) -> Vec<f64> {
        let mut order: Vec<usize> = (0..ready.len()).collect();
        order.sort_by_key(|place| key(ready[*place]));
        let mut left = self.capacities.clone();
        let mut rates = vec![0.0; ready.len()];
        for place in order {
            let path = &self.flows[ready[place]].path;
            let least = path.iter().map(|link| left[*link]).fold(f64::INFINITY, f64::min);
            if least.is_finite() && least < 1e-9 * self.alone(ready[place]) {
                continue;
            }
            rates[place] = least;
            for link in path {
                // What has no limit keeps it.
                left[*link] -= if left[*link].is_finite() { least } else { 0.0 };
            }
        }
        rates
    }
    /// Seconds of what is left of a flow's chain, alone on its routes.
    fn chain(&self, flow: usize, left: &[f64]) -> f64 {
        let of = &self.flows[flow];
        let of_it =
            |other: &usize| (self.flows[*other].collective, self.flows[*other].group) == (of.collective, of.group);
        (0..left.len()).filter(of_it).map(|other| left[other] / self.alone(other)).sum()
    }
    /// Seconds that a collective takes at least from now on.
    fn urgency(&self, collective: u64, left: &[f64]) -> f64 {
        let flows = || (0..left.len()).filter(|flow| self.flows[*flow].collective == collective);
        let chains = flows().map(|flow| self.chain(flow, left));
        let volume = |link: usize| {
            flows().filter(|flow| self.flows[*flow].path.contains(&link)).map(|flow| left[flow]).sum::<f64>()
        };
        let links = (0..self.capacities.len()).map(|link| volume(link) / self.capacities[link]);
        chains.chain(links).fold(0.0, f64::max)
    }

    /// Each flow after those that go first, and those that were to end on its links before it was to begin.
    fn in_order(&self) -> Vec<f64> {
        let takes: Vec<f64> = (0..self.flows.len())
            .map(|flow| self.flows[flow].size / self.flows[flow].rate.unwrap_or_else(|| self.alone(flow)))
            .collect();
        let meet =
            |a: &Flow, b: &Flow| a.path.iter().any(|link| self.capacities[*link].is_finite() && b.path.contains(link));
        let goes_first = |a: usize, b: usize| {
            let (first, then) = (&self.flows[a], &self.flows[b]);
            a != b
                && meet(first, then)
                && first.start + takes[a] <= then.start + (1e-6 * then.start).min(takes[a] / 1e3)
        };
        let mut ends = vec![0.0; takes.len()];
        // As often as the longest wait may be long.
        for _ in 0..takes.len() {
            for flow in 0..takes.len() {
                let first = (0..takes.len()).filter(|other| goes_first(*other, flow)).chain(self.before(flow));
                let start = first.map(|other| ends[other]).fold(self.flows[flow].release, f64::max);
                ends[flow] = start + takes[flow];
            }
        }
        ends
    }
}

/// A time that is equal for equal times, in whole parts of a hundred-millionth second.
fn key(seconds: f64) -> i64 {
    (seconds * 1e8).round() as i64
}
