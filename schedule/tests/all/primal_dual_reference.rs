//! `primal-dual` against the specification: every rate of every flow of a host, compared with an independent
//! implementation in exact fractions.
//!
//! Instances are drawn from fixed seeds, and so that nothing is ever rounded: rates, links and demands are multiples of
//! one rate by a power of two, and what is shared is shared by a power of two. There both forms have to agree to the
//! bit, ties between completion slots included: to the letter with the bare load as price, repaired with λ(ρ) = ρ. The
//! exponential price is rounded by nature; there instances are left out in which a decision hangs on that rounding.
//!
//! By hand these changes were made, and each was noticed by the exact comparisons. In the crate: a tie between completion
//! slots goes to the later one; a refill weighs prices against what is left instead of against G. In the reference: the
//! headroom ignores earlier flows of the own job; a new flow without B_f is raised beyond its headroom.

mod book;
mod rational;

use book::{Flow, Hop, Instance, Link, Nature, Plan, Price, solve};
use rational::{ONE, Q, ZERO};
use sluice_schedule::policy::primal_dual::{self, Config, FlowView, Problem, Schedule, Scratch};
use sluice_schedule::price::{Curve, Weight};
use sluice_schedule::units::{Bytes, FlowId, JobId, Nanos, Rate};

const SLOT: Nanos = Nanos::from_millis(60);
/// The rate that all others are parts or multiples of: as load a price of four, and with sixteenths without rest.
const LITERAL: Rate = Rate::mbps(4_000);
/// The same for the repaired form: with 2⁻²⁴ of it without rest.
const REPAIRED: Rate = Rate(400 << 24);
const INSTANCES: u64 = 200;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    /// A multiple of 1/`per` below `below`.
    fn part(&mut self, below: u64, per: u64) -> Q {
        Q::new(i128::from(self.below(below * per)), i128::from(per))
    }
    fn instance(&mut self, price: Price) -> Instance {
        let repaired = !matches!(price, Price::Load(_));
        let horizon = 3 + self.below(6) as usize;
        let rest = Q::new(1, 1 << self.below(3));
        // Loads of eight parts of a link should be worth about a slot.
        let weight = match price {
            Price::Load(_) => Q::new(1, 4 << self.below(5)),
            _ => Q::whole(1 << self.below(5)),
        };
        let links: Vec<Link> = (0..5).map(|l| Link { usable: Q::whole(8 << self.below(3)), own: l < 2 }).collect();
        let own_links = 1 + self.below(2);
        let flows = (0..1 + self.below(5)).map(|_| self.flow(horizon, own_links, repaired, &links)).collect();
        Instance { horizon, rest, weight, price, repaired, links, flows }
    }
    fn flow(&mut self, horizon: usize, own_links: u64, repaired: bool, links: &[Link]) -> Flow {
        let sharers = if repaired { 1 << self.below(3) } else { 1 };
        let mut path = vec![Hop { link: self.below(own_links) as usize, load: vec![ZERO; horizon], sharers }];
        for (link, Link { usable, .. }) in links.iter().enumerate().skip(2) {
            if self.one_in(2) {
                // Up to more than the link, in few steps, so that slots and completion slots often cost the same.
                let (step, steps) = (usable.natural().unwrap_or(4) / 4, 6);
                path.push(Hop {
                    link,
                    load: (0..horizon).map(|_| Q::whole(self.below(steps) * step)).collect(),
                    sharers,
                });
            }
        }
        let demand = if self.one_in(2) { Q::whole(1 + self.below(8)) } else { self.part(12, 16) + Q::new(1, 16) };
        Flow {
            job: self.below(3),
            arrival: self.below(3),
            demand,
            bound: self.one_in(3).then(|| self.part(6, 16)).filter(|bound| *bound < demand),
            behind: if self.one_in(2) { self.part(12, 16).min(demand) } else { ZERO },
            best: self.one_in(2).then(|| self.part(12, 4)),
            floor: if self.one_in(2) { Q::new(1, 4) } else { ZERO },
            old: (0..horizon).map(|_| self.part(3, 4)).collect(),
            path,
        }
    }
}

/// `None` if it is not a whole number of bit/s.
fn rate(q: Q, unit: Rate) -> Option<Rate> {
    (q * Q::whole(unit.0)).natural().map(Rate)
}

fn exact(q: Q, unit: Rate) -> Rate {
    rate(q, unit).expect("an instance consists of whole numbers of bit/s")
}

fn bytes(q: Q, unit: Rate) -> Bytes {
    Bytes((q * Q::whole(unit.over(SLOT).0)).natural().expect("an instance consists of whole bytes"))
}

/// What the crate makes of the same instance.
fn planned(instance: &Instance, unit: Rate, curve: Curve) -> Vec<Schedule> {
    let row = |rates: &[Q]| -> Vec<Rate> { rates.iter().map(|q| exact(*q, unit)).collect() };
    let loads: Vec<Vec<Vec<Rate>>> =
        instance.flows.iter().map(|flow| flow.path.iter().map(|hop| row(&hop.load)).collect()).collect();
    let olds: Vec<Vec<Rate>> = instance.flows.iter().map(|flow| row(&flow.old)).collect();
    let mut paths: Vec<Vec<primal_dual::Hop<'_>>> = Vec::new();
    for (flow, loads) in instance.flows.iter().zip(&loads) {
        let hops = flow.path.iter().zip(loads);
        let hops = hops.map(|(hop, load)| primal_dual::Hop {
            link: hop.link,
            load,
            sharers: hop.sharers,
            siblings: Rate::ZERO,
        });
        paths.push(hops.collect());
    }
    let flow = |(f, flow): (usize, &Flow)| FlowView {
        flow: FlowId(f as u64),
        job: JobId(flow.job),
        arrival: flow.arrival,
        remaining: bytes(flow.demand, unit),
        usable: bytes(flow.bound.unwrap_or(flow.demand), unit),
        behind: bytes(flow.behind, unit),
        ceiling: flow.best.map_or(Rate::MAX, |best| exact(best, unit)),
        floor: exact(flow.floor, unit),
        due: false,
        old: &olds[f],
        path: &paths[f],
    };
    let flows: Vec<FlowView<'_>> = instance.flows.iter().enumerate().map(flow).collect();
    let link =
        |link: &Link| primal_dual::Link { usable: exact(link.usable, unit), own: link.own, ..Default::default() };
    let links: Vec<primal_dual::Link> = instance.links.iter().map(link).collect();
    let rest = Nanos((instance.rest * Q::whole(SLOT.0)).natural().expect("a whole number of nanoseconds"));
    let problem = Problem { slot: SLOT, rest, horizon: instance.horizon, links: &links, flows: &flows };
    let thousandths = (instance.weight * Q::whole(1024)).natural().expect("weights have ten bits behind the point");
    let weight = Weight::new(thousandths as f64 / 1024.0);
    let config = Config { curve, weight, repaired: instance.repaired, work_conserving: false };
    let mut out = Vec::new();
    primal_dual::plan(&problem, &config, &mut Scratch::default(), &mut out);
    out
}

fn add(sum: &mut Nature, nature: &Nature) {
    sum.ties += nature.ties;
    sum.deferred += nature.deferred;
    sum.raised += nature.raised;
    sum.held += nature.held;
    sum.cut += nature.cut;
    sum.unplaced += nature.unplaced;
}

/// Every branch of both algorithms has been gone through often.
fn assert_varied(sum: &Nature) {
    println!("{sum:?}");
    assert!(sum.ties >= 5, "only {} ties between completion slots", sum.ties);
    for (what, count) in [
        ("deferred", sum.deferred),
        ("raised", sum.raised),
        ("held", sum.held),
        ("cut", sum.cut),
        ("unplaced", sum.unplaced),
    ] {
        assert!(count >= 20, "only {count} cases of flows {what}");
    }
}

/// Draws until so many instances divide without rest, and compares all rates of all of them.
fn agrees_to_the_bit(seed: u64, price: Price, unit: Rate, curve: Curve) {
    let mut draw = Draw(seed);
    let (mut compared, mut uneven, mut sum) = (0, 0, Nature::default());
    while compared < INSTANCES {
        let instance = draw.instance(price);
        let (plans, nature) = solve(&instance);
        let rates = |plan: &Plan| plan.rates.iter().map(|q| rate(*q, unit)).collect::<Option<Vec<Rate>>>();
        let Some(expected) = plans.iter().map(rates).collect::<Option<Vec<_>>>().filter(|_| !nature.uneven) else {
            uneven += 1;
            assert!(uneven <= INSTANCES, "{uneven} instances do not divide, {compared} do");
            continue;
        };
        for ((schedule, expected), (f, plan)) in
            planned(&instance, unit, curve).iter().zip(&expected).zip(plans.iter().enumerate())
        {
            assert_eq!(&schedule.rates, expected, "flow {f} of number {compared}: {instance:#?}");
            assert_eq!(schedule.chosen.completion, plan.completion, "flow {f} of number {compared}: {instance:#?}");
        }
        add(&mut sum, &nature);
        compared += 1;
    }
    println!("{uneven} did not divide");
    assert_varied(&sum);
}

#[test]
fn to_the_letter_every_rate_is_the_references() {
    let gigabits = Q::new(i128::from(LITERAL.0), 1_000_000_000);
    agrees_to_the_bit(1, Price::Load(gigabits), LITERAL, Curve::BareLoad);
}

#[test]
fn repaired_every_rate_is_the_references() {
    agrees_to_the_bit(2, Price::Linear, REPAIRED, Curve::Linear);
}

#[test]
fn with_the_exponential_price_only_ties_are_left_to_rounding() {
    let mut draw = Draw(3);
    let (mut compared, mut ties, mut sum) = (0_u64, 0_u64, Nature::default());
    for n in 0..INSTANCES {
        let mu = [2.0, 10.0, 100.0, 1000.0][n as usize % 4];
        let instance = draw.instance(Price::Exponential(mu));
        let (plans, nature) = solve(&instance);
        if nature.near_tie {
            ties += 1;
            continue;
        }
        let unit = REPAIRED.0 as f64;
        for (f, (schedule, plan)) in planned(&instance, REPAIRED, Curve::exponential(mu)).iter().zip(&plans).enumerate()
        {
            for (t, (is, due)) in schedule.rates.iter().zip(&plan.rates).enumerate() {
                let due =
                    (*due * Q::new(1 << 40, 1)).natural().expect("a multiple of 2⁻⁴⁰") as f64 / (1_u64 << 40) as f64;
                let apart = (is.0 as f64 - due * unit).abs();
                // A rate is a whole number of bit/s.
                assert!(
                    apart <= 1e-9 * due * unit + 1.0,
                    "flow {f} slot {t}: {is} and {due} of {REPAIRED}: {instance:#?}"
                );
            }
        }
        add(&mut sum, &nature);
        compared += 1;
    }
    println!("{ties} of {INSTANCES} hang on rounding, {sum:?}");
    assert!(compared * 2 > INSTANCES, "only {compared} instances were compared, {ties} have ties");
    assert!([sum.deferred, sum.raised, sum.held, sum.cut, sum.unplaced].iter().all(|count| *count >= 10), "{sum:?}");
}

#[test]
fn fractions_are_exact() {
    let third = Q::new(1, 3);
    assert_eq!(third + third + third, ONE);
    assert_eq!(Q::new(-2, -6), third);
    assert_eq!((ONE / Q::new(3, 7)).less(Q::new(10, 3)), ZERO);
    assert_eq!((third * Q::whole(6)).natural(), Some(2));
    assert_eq!((third.natural(), third < Q::new(2, 5)), (None, true));
}
