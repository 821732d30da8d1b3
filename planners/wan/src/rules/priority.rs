//! Strict priority without preemption costs: in an order of the ready flows each takes all that is left of its route.
//!
//! The order is fixed by ranks, or follows what the collectives still have to do, computed anew at each event.

use crate::instance::Instance;
use crate::layout::{Layout, Loads};
use crate::refusal::Refusal;
use crate::simulate::{Moment, RateRule};

/// Times within this part of the next longer one count as equal: what is equal may differ in the last digits of a float, and
/// nothing should hang on those.
const EQUAL: f64 = 1.0 / (1_u64 << 30) as f64;

/// Gives times that count as equal one value. `order` is memory to work in.
fn level(times: &mut [f64], order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..times.len());
    order.sort_unstable_by(|a, b| times[*a].total_cmp(&times[*b]));
    let Some(&first) = order.first() else { return };
    let (mut before, mut value) = (times[first], times[first]);
    for &place in order.iter() {
        if times[place] > before * (1.0 + EQUAL) {
            value = times[place];
        }
        before = times[place];
        times[place] = value;
    }
}

/// A rate below this part of the rate alone is none.
pub(crate) const NOTHING: f64 = 1e-9;

/// What both orders divide by.
#[derive(Clone, Debug)]
struct Routes {
    layout: Layout,
    alone: Vec<f64>,
    left: Vec<f64>,
}

impl Routes {
    fn new(instance: &Instance) -> Routes {
        let layout = Layout::of(instance);
        let alone = (0..instance.flows().len()).map(|flow| instance.alone(flow)).collect();
        Routes { left: layout.capacity.clone(), layout, alone }
    }
    /// Divides the links in the order of `places`, which are places in `ready`.
    fn divide(&mut self, ready: &[usize], places: impl Iterator<Item = usize>, rates: &mut [f64]) {
        self.left.copy_from_slice(&self.layout.capacity);
        for place in places {
            let flow = ready[place];
            let rate = self.layout.least(flow, &self.left);
            if rate >= NOTHING * self.alone[flow] {
                rates[place] = rate;
                for &link in self.layout.path(flow) {
                    self.left[link as usize] -= rate;
                }
            }
        }
    }
}

/// Seconds that the flows behind each one in its chain take when each is alone on its route.
pub(crate) fn behind(instance: &Instance) -> Vec<f64> {
    let mut behind = vec![0.0; instance.flows().len()];
    for group in instance.groups() {
        let mut sum = 0.0;
        for &flow in group.flows.iter().rev() {
            behind[flow] = sum;
            sum += instance.duration(flow);
        }
    }
    behind
}

/// Ranks that do not change: the smaller rank goes first, of equal ones the flow with more left of its chain.
#[derive(Clone, Debug)]
pub struct Priority {
    routes: Routes,
    rank: Vec<usize>,
    behind: Vec<f64>,
    /// Seconds that are left of the chains of the ready flows.
    chain: Vec<f64>,
    scratch: Vec<usize>,
    order: Vec<(usize, f64, usize)>,
}

impl Priority {
    /// With ranks by flow.
    ///
    /// # Errors
    /// `BadLength`.
    pub fn new(instance: &Instance, rank: Vec<usize>) -> Result<Priority, Refusal> {
        let expected = instance.flows().len();
        if rank.len() != expected {
            return Err(Refusal::BadLength { what: "ranks", found: rank.len(), expected });
        }
        let (chain, scratch, order) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Priority { routes: Routes::new(instance), rank, behind: behind(instance), chain, scratch, order })
    }
    /// With a place in the order for each collective.
    ///
    /// # Errors
    /// `BadLength`.
    pub fn of_collectives(instance: &Instance, place: &[usize]) -> Result<Priority, Refusal> {
        Priority::new(instance, ranks(instance, place)?)
    }
}

/// The ranks of the flows for a place in the order for each collective.
///
/// # Errors
/// `BadLength`.
pub fn ranks(instance: &Instance, place: &[usize]) -> Result<Vec<usize>, Refusal> {
    let rank = instance.flows().iter().map(|flow| place.get(flow.collective).copied()).collect::<Option<Vec<_>>>();
    let expected = instance.collectives();
    let short = Refusal::BadLength { what: "places", found: place.len(), expected };
    rank.filter(|_| place.len() == expected).ok_or(short)
}

impl RateRule for Priority {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        let Priority { routes, rank, behind, chain, scratch, order } = self;
        chain.clear();
        chain.extend(moment.ready.iter().map(|&flow| behind[flow] + moment.remaining[flow] / routes.alone[flow]));
        level(chain, scratch);
        order.clear();
        order.extend(moment.ready.iter().enumerate().map(|(place, &flow)| (rank[flow], chain[place], place)));
        // Places ascend with the flows' indices.
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
        routes.divide(moment.ready, order.iter().map(|&(.., place)| place), rates);
    }
}

/// How much a collective, and each of its groups, still has to do.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    layout: Layout,
    loads: Loads,
    alone: Vec<f64>,
    /// The flows of each collective by group and order.
    flows: Vec<Vec<usize>>,
    group_of: Vec<usize>,
    /// Seconds, by group.
    pub(crate) chain: Vec<f64>,
}

impl Rest {
    pub(crate) fn new(instance: &Instance) -> Rest {
        let layout = Layout::of(instance);
        let groups = |collective| instance.groups_of(collective).map(|group| &instance.groups()[group]);
        let flows = |collective| groups(collective).flat_map(|group| group.flows.iter().copied()).collect();
        Rest {
            loads: Loads::new(layout.capacity.len()),
            layout,
            alone: (0..instance.flows().len()).map(|flow| instance.alone(flow)).collect(),
            flows: (0..instance.collectives()).map(flows).collect(),
            group_of: (0..instance.flows().len()).map(|flow| instance.group_of(flow)).collect(),
            chain: vec![0.0; instance.groups().len()],
        }
    }
    /// A bound on what the collective still needs, in s: its longest chain, or its fullest link.
    pub(crate) fn bound(&mut self, collective: usize, remaining: &[f64]) -> f64 {
        let Rest { layout, loads, alone, flows, group_of, chain } = self;
        loads.clear();
        let flows = &flows[collective];
        for &flow in flows {
            chain[group_of[flow]] = 0.0;
        }
        for &flow in flows.iter().filter(|&&flow| remaining[flow] > 0.0) {
            chain[group_of[flow]] += remaining[flow] / alone[flow];
            loads.add(layout.path(flow), remaining[flow]);
        }
        let longest = flows.iter().map(|&flow| chain[group_of[flow]]).fold(0.0, f64::max);
        let fullest = loads.touched().iter().map(|&link| loads.load[link as usize] / layout.capacity[link as usize]);
        fullest.fold(longest, f64::max)
    }
}

/// The collective with the least to do goes first, in it the chain with the most to do; computed anew at each event.
#[derive(Clone, Debug)]
pub struct Recomputed {
    routes: Routes,
    rest: Rest,
    collective_of: Vec<usize>,
    /// By collective, seconds.
    bound: Vec<f64>,
    /// By ready flow, the seconds of its collective and what is left of its chain.
    urgency: Vec<f64>,
    chain: Vec<f64>,
    scratch: Vec<usize>,
    order: Vec<(f64, usize, f64, usize)>,
}

impl Recomputed {
    /// For an instance.
    pub fn new(instance: &Instance) -> Recomputed {
        Recomputed {
            routes: Routes::new(instance),
            rest: Rest::new(instance),
            collective_of: instance.flows().iter().map(|flow| flow.collective).collect(),
            bound: vec![0.0; instance.collectives()],
            urgency: Vec::new(),
            chain: Vec::new(),
            scratch: Vec::new(),
            order: Vec::new(),
        }
    }
}

impl RateRule for Recomputed {
    fn rates(&mut self, moment: &Moment<'_>, rates: &mut [f64]) {
        let Recomputed { routes, rest, collective_of, bound, urgency, chain, scratch, order } = self;
        for (collective, bound) in bound.iter_mut().enumerate() {
            *bound = rest.bound(collective, moment.remaining);
        }
        urgency.clear();
        urgency.extend(moment.ready.iter().map(|&flow| bound[collective_of[flow]]));
        level(urgency, scratch);
        chain.clear();
        chain.extend(moment.ready.iter().map(|&flow| rest.chain[rest.group_of[flow]]));
        level(chain, scratch);
        order.clear();
        for (place, &flow) in moment.ready.iter().enumerate() {
            order.push((urgency[place], collective_of[flow], chain[place], place));
        }
        let by = |a: &(f64, usize, f64, usize), b: &(f64, usize, f64, usize)| {
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(b.2.total_cmp(&a.2)).then(a.3.cmp(&b.3))
        };
        order.sort_unstable_by(by);
        routes.divide(moment.ready, order.iter().map(|&(.., place)| place), rates);
    }
}
