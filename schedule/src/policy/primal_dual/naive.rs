//! The allocator as one would write it down: every sum is taken anew over the flows that have planned, every link is looked
//! at anew for every flow, and the fill asks every flow in every round. What is remembered between those steps elsewhere
//! has to come to the same, to the bit; only Algorithms 1 and 2 for one flow, which remember nothing, are shared.

use super::fill::{ROUNDS, shorten};
use super::*;
use crate::units::mixed;

fn naive(problem: &Problem, config: &Config) -> Vec<Schedule> {
    let horizon = problem.horizon.clamp(1, MAX_SLOTS);
    let flows = problem.flows;
    let mut out = vec![Schedule { rates: vec![Rate::ZERO; horizon], ..Schedule::default() }; flows.len()];
    let known = |f: &usize| flows[*f].path.iter().all(|hop| hop.link < problem.links.len());
    let mut order: Vec<usize> = (0..flows.len()).filter(|&f| flows[f].remaining > Bytes::ZERO).filter(known).collect();
    order.sort_by_key(|&f| (flows[f].arrival, flows[f].job, flows[f].flow));
    for (at, &f) in order.iter().enumerate() {
        let path = path(problem, config, f, &order, at, &out);
        plan_flow(problem, config, &flows[f], &path, floor(problem, &order, f), &mut out[f]);
    }
    if config.work_conserving {
        naive_fill(problem, &order, &mut out);
    }
    out
}

/// What a flow keeps: on own links at most an equal share.
fn floor(problem: &Problem, order: &[usize], f: usize) -> Rate {
    let crosses = |g: &usize, l: usize| problem.flows[*g].path.iter().any(|hop| hop.link == l);
    let own = (0..problem.links.len()).filter(|&l| problem.links[l].own && crosses(&f, l));
    let share = |l: usize| problem.links[l].usable.share(order.iter().filter(|g| crosses(g, l)).count() as u64);
    own.map(share).fold(problem.flows[f].floor, Rate::min)
}

/// What `value` says of some flows, added up once for every time that they cross a link.
fn sum(problem: &Problem, flows: &[usize], link: usize, value: impl Fn(usize) -> Rate) -> Rate {
    let times = |f: usize| problem.flows[f].path.iter().filter(|hop| hop.link == link).count();
    flows.iter().flat_map(|&f| std::iter::repeat_n(f, times(f))).fold(Rate::ZERO, |sum, f| sum.plus(value(f)))
}

fn path(problem: &Problem, config: &Config, f: usize, order: &[usize], at: usize, out: &[Schedule]) -> Path {
    let flow = &problem.flows[f];
    let (done, later) = (&order[..at], &order[at + 1..]);
    let horizon = problem.horizon.clamp(1, MAX_SLOTS);
    let mut path = Path::default();
    path.clear(horizon);
    for hop in flow.path {
        let link = problem.links[hop.link];
        let of_jobs = |t: usize, own: bool| {
            let value = |g: usize| if (problem.flows[g].job == flow.job) == own { out[g].rates[t] } else { Rate::ZERO };
            sum(problem, done, hop.link, value)
        };
        for t in 0..horizon {
            let old = flow.old.get(t).copied().filter(|_| config.repaired).unwrap_or(Rate::ZERO);
            let load = hop.load(t).minus(old);
            let others = load.plus(of_jobs(t, false));
            let mut left = link.usable.minus(others.plus(of_jobs(t, true)));
            if t == 0 && link.own {
                left = left.minus(sum(problem, later, hop.link, |g| floor(problem, order, g)));
            }
            if t == 0 {
                path.hard = path.hard.min(if link.own { left } else { link.usable });
                path.alone &= others == Rate::ZERO && of_jobs(t, true) == Rate::ZERO;
            }
            if config.repaired {
                left = left.min(link.usable.minus(others).share(hop.sharers));
            }
            path.headroom[t] = path.headroom[t].min(left);
            if !(config.repaired && flow.due) {
                path.price[t] = path.price[t].plus(config.curve.link(others, link.usable));
            }
        }
    }
    path
}

fn naive_fill(problem: &Problem, order: &[usize], out: &mut [Schedule]) {
    let now = |out: &[Schedule]| -> Vec<Rate> { out.iter().map(|schedule| schedule.rates[0]).collect() };
    let mut raised = now(out);
    // What a link has left beside these rates, with this much of its load being the flow's own.
    let left = |hop: &Hop, old: Rate, raised: &[Rate]| {
        let link = &problem.links[hop.link];
        let others = hop.load(0).minus(old).plus(hop.siblings).plus(link.filled);
        link.usable.minus(others.plus(sum(problem, order, hop.link, |g| raised[g])))
    };
    let own = |hop: &&Hop| problem.links[hop.link].own;
    let room = |f: usize, raised: &[Rate]| {
        let flow = &problem.flows[f];
        let old = flow.old.first().copied().unwrap_or(Rate::ZERO);
        let least = flow.path.iter().map(|hop| left(hop, old, raised)).min();
        least.filter(|_| flow.path.iter().any(|hop| own(&hop))).unwrap_or(Rate::ZERO)
    };
    let most = |f: usize| problem.flows[f].ceiling.min(predecessor_limit(&problem.flows[f], problem.rest));
    let later = |f: usize| out[f].rates[1..].iter().fold(0_u64, |sum, rate| sum.saturating_add(rate.0));
    let brought = |f: usize| {
        let bytes = out[f].rates[1..].iter().fold(Bytes::ZERO, |sum, rate| sum.plus(rate.over(problem.slot)));
        out[f].rates[0].plus(Rate::needed(bytes, problem.rest)).min(most(f))
    };
    let by_later: Vec<(u64, Rate)> = (0..out.len()).map(|f| (later(f), brought(f))).collect();
    let equally: Vec<(u64, Rate)> = (0..out.len()).map(|f| (1, most(f))).collect();
    for mut weights in [by_later, equally] {
        for _ in 0..ROUNDS {
            for &f in order {
                if weights[f].1 <= raised[f] || room(f, &raised) == Rate::ZERO {
                    weights[f].0 = 0;
                }
            }
            let of = |link: usize| -> u128 {
                let times = |f: usize| problem.flows[f].path.iter().filter(|hop| hop.link == link).count() as u128;
                order.iter().map(|&f| times(f) * u128::from(weights[f].0)).sum()
            };
            let before = raised.clone();
            for &f in order.iter().filter(|&&f| weights[f].0 > 0) {
                let share = |hop: &Hop| {
                    let part = u128::from(left(hop, Rate::ZERO, &before).0) * u128::from(weights[f].0);
                    Rate(u64::try_from(part / of(hop.link).max(1)).unwrap_or(u64::MAX))
                };
                let share = problem.flows[f].path.iter().filter(own).map(share).min().unwrap_or(Rate::ZERO);
                let more = share.min(weights[f].1.minus(raised[f])).min(room(f, &raised));
                raised[f] = raised[f].plus(more);
            }
            if before == raised {
                break;
            }
        }
    }
    for &f in order {
        raised[f] = raised[f].plus(room(f, &raised).min(most(f).minus(raised[f])));
    }
    for &f in order {
        let schedule = &mut out[f];
        if raised[f] <= schedule.rates[0] {
            continue;
        }
        let before = std::mem::replace(&mut schedule.rates[0], raised[f]);
        schedule.filled = raised[f].minus(before);
        schedule.why = Why::WorkConserving;
        let bytes = raised[f].over(problem.rest).minus(before.over(problem.rest));
        shorten(&mut schedule.rates[1..], problem.slot, bytes);
    }
}

/// Numbers that have nothing in common, always the same.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn rate(&mut self) -> Rate {
        match self.below(4) {
            0 => Rate::ZERO,
            1 => Rate::mbps(1_000 * self.below(25)), // often the same
            _ => Rate(self.below(25_000_000_000)),
        }
    }
    /// As promises are: the same for some slots, then something else, then nothing.
    fn rates(&mut self, slots: usize) -> Vec<Rate> {
        let mut rate = self.rate();
        let mut one = || {
            if self.one_in(3) {
                rate = self.rate();
            }
            rate
        };
        let all: Vec<Rate> = (0..slots).map(|_| one()).collect();
        all[..self.below(slots as u64 + 1) as usize].to_vec()
    }
}

/// A host's problem, with what its views point into.
struct Drawn {
    rest: Nanos,
    horizon: usize,
    links: Vec<Link>,
    paths: Vec<Vec<DrawnHop>>,
    flows: Vec<FlowView<'static>>,
    olds: Vec<Vec<Rate>>,
    loads: Vec<Vec<Rate>>,
}

struct DrawnHop {
    link: usize,
    load: usize,
    sharers: u64,
    siblings: Rate,
}

const SLOT: Nanos = Nanos::from_millis(60);

impl Drawn {
    fn draw(draw: &mut Draw) -> Drawn {
        let horizon = 1 + draw.below(16) as usize;
        let own = 1 + draw.below(2) as usize;
        let link = |l: usize, draw: &mut Draw| Link {
            usable: Rate(1 + draw.below(25_000_000_000)),
            own: l < own,
            filled: if draw.one_in(3) { draw.rate() } else { Rate::ZERO },
        };
        let links: Vec<Link> = (0..own + 1 + draw.below(5) as usize).map(|l| link(l, draw)).collect();
        let loads: Vec<Vec<Rate>> = (0..6).map(|_| draw.rates(horizon)).collect();
        let flows = draw.below(24) as usize;
        let jobs = 1 + draw.below(6);
        let mut drawn = Drawn {
            rest: SLOT.scaled(draw.below(9) as f64 / 8.0),
            horizon,
            links,
            paths: Vec::new(),
            flows: Vec::new(),
            olds: vec![Vec::new()],
            loads,
        };
        for i in 0..flows {
            let most = [1_000, 100_000_000, 3_000_000_000][draw.below(3) as usize];
            let bytes = Bytes(draw.below(most));
            let job = draw.below(jobs);
            drawn.olds.push(if draw.one_in(6) { draw.rates(horizon) } else { Vec::new() });
            drawn.flows.push(FlowView {
                flow: FlowId(i as u64),
                job: JobId(job),
                // A job's rounds begin together, but not all of its flows need have been there then.
                arrival: if draw.one_in(5) { draw.below(4) } else { job },
                remaining: bytes,
                usable: if draw.one_in(4) { Bytes(draw.below(bytes.0 + 1)) } else { bytes },
                behind: if draw.one_in(3) { Bytes(draw.below(50_000_000)) } else { Bytes::ZERO },
                ceiling: if draw.one_in(2) { Rate(draw.below(25_000_000_000)) } else { Rate::MAX },
                floor: if draw.one_in(2) { Rate::mbps(draw.below(250)) } else { Rate::ZERO },
                due: draw.one_in(8),
                ..FlowView::default()
            });
            let mut path = Vec::new();
            for _ in 0..draw.below(5) {
                // Most flows of a job see the same on a link, some do not.
                let link = draw.below(drawn.links.len() as u64);
                let load = if draw.one_in(8) { draw.below(6) } else { (link + job) % 6 };
                let sharers = if draw.one_in(8) { draw.below(4) } else { job % 3 };
                let siblings = if draw.one_in(4) { draw.rate() } else { Rate::ZERO };
                path.push(DrawnHop { link: link as usize, load: load as usize, sharers, siblings });
            }
            // Once in a while a path that crosses a link twice, or one that nobody knows.
            if !draw.one_in(40) {
                path.sort_by_key(|hop: &DrawnHop| hop.link);
                path.dedup_by_key(|hop| hop.link);
            }
            if draw.one_in(60) {
                path.push(DrawnHop { link: 99, load: 0, sharers: 1, siblings: Rate::ZERO });
            }
            drawn.paths.push(path);
        }
        drawn
    }

    /// Plans in both ways, with memory that served for other problems before.
    fn plan(&self, config: &Config, scratch: &mut Scratch, out: &mut Vec<Schedule>) -> Vec<Schedule> {
        let hop = |hop: &DrawnHop| Hop {
            link: hop.link,
            load: &self.loads[hop.load],
            sharers: hop.sharers,
            siblings: hop.siblings,
        };
        let paths: Vec<Vec<Hop>> = self.paths.iter().map(|path| path.iter().map(hop).collect()).collect();
        let views = self.flows.iter().zip(&paths).zip(&self.olds[1..]);
        let flows: Vec<FlowView> = views.map(|((flow, path), old)| FlowView { path, old, ..*flow }).collect();
        let problem = Problem { slot: SLOT, rest: self.rest, horizon: self.horizon, links: &self.links, flows: &flows };
        plan(&problem, config, scratch, out);
        naive(&problem, config)
    }
}

#[test]
fn what_is_remembered_changes_no_bit_of_any_schedule() {
    let mut draw = Draw(20);
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let (mut schedules, mut sending, mut reasons) = (0, 0, std::collections::BTreeMap::<Why, u32>::new());
    for instance in 0..6_000 {
        let weight = draw.below(40) as f64 / 8.0;
        let drawn = Drawn::draw(&mut draw);
        let mut config = match draw.below(3) {
            0 => Config::literal(weight),
            1 => Config { curve: Curve::Linear, ..Config::repaired(weight, 100.0, true) },
            _ => Config::repaired(weight, 100.0, true),
        };
        config.work_conserving = !draw.one_in(4);
        let expected = drawn.plan(&config, &mut scratch, &mut out);
        assert_eq!(out, expected, "instance {instance}, {config:?}");
        schedules += out.len();
        sending += out.iter().filter(|schedule| schedule.rates.iter().any(|rate| *rate > Rate::ZERO)).count();
        for schedule in &out {
            *reasons.entry(schedule.why).or_default() += 1;
        }
    }
    // Enough of everything has been seen.
    assert!(schedules > 60_000 && sending > schedules / 3, "{sending} of {schedules}");
    for why in
        [Why::Price, Why::Headroom, Why::Predecessor, Why::CatchUp, Why::Floor, Why::LinkCap, Why::WorkConserving]
    {
        assert!(reasons.get(&why).is_some_and(|&times| times > 200), "{why:?}: {reasons:?}");
    }
}
