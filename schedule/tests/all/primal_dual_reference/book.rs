//! Algorithms 1 and 2 for all flows of one host by brute force, from the specification's text, in exact fractions.
//!
//! Rates are in units of one rate, times in slots, bytes in what that rate moves in a slot. Nothing here knows how the
//! crate does it: prices and headroom are added up anew for every flow and slot from the schedules made before, and for
//! every completion slot the slots are sorted and filled anew.

use super::rational::{ONE, Q, ZERO};

/// How load becomes a price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Price {
    /// The load, times this.
    Load(Q),
    /// λ(ρ) = ρ.
    Linear,
    /// λ(ρ) = (μ^ρ − 1)/(μ − 1), to 2⁻³⁰.
    Exponential(f64),
}

#[derive(Clone, Debug)]
pub struct Link {
    pub usable: Q,
    pub own: bool,
}

#[derive(Clone, Debug)]
pub struct Hop {
    pub link: usize,
    /// Of other jobs on other hosts, per slot.
    pub load: Vec<Q>,
    pub sharers: u64,
}

#[derive(Clone, Debug)]
pub struct Flow {
    pub job: u64,
    pub arrival: u64,
    /// G.
    pub demand: Q,
    /// What its predecessors allow it to send by the end of the current slot; `None`: all.
    pub bound: Option<Q>,
    /// (F of what it depends on − what it has delivered)₊.
    pub behind: Q,
    /// B_f.
    pub best: Option<Q>,
    pub floor: Q,
    /// What the loads contain of its own last schedule.
    pub old: Vec<Q>,
    pub path: Vec<Hop>,
}

#[derive(Clone, Debug)]
pub struct Instance {
    pub horizon: usize,
    /// What is left of the current slot.
    pub rest: Q,
    /// w.
    pub weight: Q,
    pub price: Price,
    pub repaired: bool,
    pub links: Vec<Link>,
    pub flows: Vec<Flow>,
}

#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub rates: Vec<Q>,
    /// β̂; `None` if the demand does not fit.
    pub completion: Option<usize>,
}

/// What the instance turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nature {
    /// A decision hangs on less than prices are rounded by.
    pub near_tie: bool,
    /// Some price is no multiple of 2⁻²⁰.
    pub uneven: bool,
    /// Candidates that cost exactly the same.
    pub ties: u64,
    /// Flows that wait for a cheaper slot; that are raised by Δ; held to B_f by it; cut to their bound.
    pub deferred: u64,
    pub raised: u64,
    pub held: u64,
    pub cut: u64,
    /// Flows that do not fit into the horizon.
    pub unplaced: u64,
}

/// What is less than this apart is not told apart by prices in units of 2⁻²⁰.
fn margin(instance: &Instance) -> Q {
    (ONE + instance.weight) * Q::new(1, 1 << 17)
}

/// First come, first served over the flows, each on what the earlier ones left.
pub fn solve(instance: &Instance) -> (Vec<Plan>, Nature) {
    let mut plans = vec![Plan::default(); instance.flows.len()];
    let mut nature = Nature::default();
    let mut order: Vec<usize> = (0..instance.flows.len()).collect();
    order.sort_by_key(|&f| (instance.flows[f].arrival, instance.flows[f].job, f));
    for (at, &f) in order.iter().enumerate() {
        let left = (0..instance.horizon).map(|t| see(instance, &order, at, t, &plans, &mut nature)).collect();
        plans[f] = plan(instance, f, left, &mut nature);
    }
    (plans, nature)
}

/// What one flow finds on its path in one slot.
#[derive(Clone, Copy, Debug)]
struct Seen {
    price: Q,
    headroom: Q,
    /// What links can bear at all, whatever others promised on those that are shared.
    hard: Q,
    floor: Q,
}

fn see(instance: &Instance, order: &[usize], at: usize, t: usize, plans: &[Plan], nature: &mut Nature) -> Seen {
    let flow = &instance.flows[order[at]];
    let crosses = |f: usize, link: usize| instance.flows[f].path.iter().any(|hop| hop.link == link);
    let floor = |f: usize| {
        let own = instance.flows[f].path.iter().filter(|hop| instance.links[hop.link].own);
        let share = |link: usize| {
            let count = order.iter().filter(|&&g| crosses(g, link)).count();
            instance.links[link].usable / Q::whole(count as u64)
        };
        own.map(|hop| share(hop.link)).fold(instance.flows[f].floor, Ord::min)
    };
    let mut seen = Seen { price: ZERO, headroom: Q::whole(1 << 40), hard: Q::whole(1 << 40), floor: floor(order[at]) };
    for hop in &flow.path {
        let link = &instance.links[hop.link];
        let (mut others, mut siblings) = (hop.load[t], ZERO);
        if instance.repaired {
            others = others.less(flow.old[t]);
        }
        for &earlier in order[..at].iter().filter(|&&f| crosses(f, hop.link)) {
            let rate = plans[earlier].rates[t];
            if instance.flows[earlier].job == flow.job { siblings = siblings + rate } else { others = others + rate }
        }
        let mut room = link.usable.less(others + siblings);
        if t == 0 && link.own {
            let later = order[at + 1..].iter().filter(|&&f| crosses(f, hop.link));
            room = room.less(later.fold(ZERO, |sum, &f| sum + floor(f)));
        }
        seen.hard = seen.hard.min(if link.own { room } else { link.usable });
        if instance.repaired {
            room = room.min(link.usable.less(others) / Q::whole(hop.sharers));
        }
        seen.headroom = seen.headroom.min(room);
        let price = match instance.price {
            Price::Load(times) => others * times,
            Price::Linear => others / link.usable,
            Price::Exponential(mu) => {
                let part = others / link.usable;
                let (part, finer) = ((part * Q::whole(1 << 40)), (1_u64 << 30) as f64);
                let part = part.natural().expect("parts of a link are binary fractions") as f64 / (1_u64 << 40) as f64;
                Q::new(((mu.powf(part) - 1.0) / (mu - 1.0) * finer).round() as i128, 1 << 30)
            }
        };
        nature.uneven |= (price * Q::whole(1 << 20)).natural().is_none();
        seen.price = seen.price + price;
    }
    seen
}

/// Algorithm 1 by brute force over the completion slots from slot `first` on, for a demand that costs as a part of `per`.
fn fill(instance: &Instance, seen: &[Seen], first: usize, demand: Q, per: Q, nature: &mut Nature) -> Plan {
    let length = |t: usize| if t == 0 { instance.rest } else { ONE };
    let mut candidates: Vec<(Q, Plan)> = Vec::new();
    for last in first..seen.len() {
        let mut visit: Vec<usize> = (first..=last).collect();
        visit.sort_by_key(|&t| (seen[t].price, t));
        let (mut rates, mut left, mut spent) = (vec![ZERO; seen.len()], demand, ZERO);
        for t in visit {
            rates[t] = seen[t].headroom.min(left / length(t));
            let bytes = rates[t] * length(t);
            left = left - bytes;
            spent = spent + bytes * seen[t].price;
        }
        if left == ZERO {
            // β̂ + w·Σ (r·t̂/G)·p, times G.
            let cost = Q::whole(last as u64 + 1) * per + instance.weight * spent;
            candidates.push((cost, Plan { rates, completion: Some(last + 1) }));
        }
    }
    let near = margin(instance);
    for (i, (a, _)) in candidates.iter().enumerate() {
        for (b, _) in &candidates[..i] {
            nature.ties += u64::from(a == b);
            nature.near_tie |= (*a).max(*b) - (*a).min(*b) <= near * per;
        }
    }
    for (i, a) in seen.iter().enumerate() {
        nature.near_tie |=
            seen[..i].iter().any(|b| a.price != b.price && a.price.less(b.price) + b.price.less(a.price) <= near);
    }
    // min_by_key keeps the first of equal ones: the smaller β̂.
    let cheapest = candidates.into_iter().min_by_key(|(cost, _)| *cost);
    cheapest.map(|(_, plan)| plan).unwrap_or_else(|| {
        nature.unplaced += 1;
        let rates = (0..seen.len()).map(|t| if t < first { ZERO } else { seen[t].headroom });
        Plan { rates: rates.collect(), completion: None }
    })
}

/// Algorithm 1, then Algorithm 2 for the current slot, then Algorithm 1 again for the later ones.
fn plan(instance: &Instance, f: usize, seen: Vec<Seen>, nature: &mut Nature) -> Plan {
    let flow = &instance.flows[f];
    let now = seen[0];
    let plan = fill(instance, &seen, 0, flow.demand, flow.demand, nature);
    let initial = plan.rates[0];
    nature.deferred += u64::from(initial < now.headroom && initial * instance.rest < flow.demand);
    let mut rate = initial;
    let lag = flow.behind.less(initial * instance.rest);
    if lag > ZERO {
        let raised = initial + lag / instance.rest;
        // A new flow starts from headroom.
        let best = if instance.repaired { flow.best } else { flow.best.or(Some(now.headroom)) };
        let reaches = best.is_none_or(|best| raised < best);
        rate = if reaches { raised } else { best.unwrap_or(raised) };
        nature.raised += u64::from(reaches);
        nature.held += u64::from(!reaches);
    }
    if instance.repaired {
        rate = rate.min(flow.best.unwrap_or(rate)).min(now.headroom);
    }
    if let Some(bound) = flow.bound {
        nature.cut += u64::from(rate > bound / instance.rest);
        rate = rate.min(bound / instance.rest);
    }
    rate = rate.min(now.hard).max(now.floor);
    if rate == initial {
        return plan;
    }
    let left = flow.demand.less(rate * instance.rest);
    let mut plan = if left == ZERO {
        Plan { rates: vec![ZERO; seen.len()], completion: Some(1) }
    } else {
        fill(instance, &seen, 1, left, flow.demand, nature)
    };
    plan.rates[0] = rate;
    plan
}
