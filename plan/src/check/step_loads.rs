//! How long steps take, and what they claim besides: their number, their loads, and the bandwidth term.

use std::collections::HashMap;

use super::achieved::{Achieved, Exactness, Quantity};
use super::fabric::Fabric;
use super::shards::Shards;
use super::violation::{Code, Violation};
use super::{Figures, Report, check_common_denominator, claims, cost};
use crate::plan::{CertificateKind, Exact, Plan, Step, Steps};
use sluice_formats::quantity::{Capacity, Rational, Unit};

/// The loads of a step.
struct Load {
    /// The longest time over links and groups, per M.
    time: Rational,
    /// The link or group that takes so long.
    place: String,
    /// The largest amount on a link, in shards.
    shards: Rational,
}

/// Steps with what they carry.
pub struct Loaded {
    loads: Vec<Load>,
    /// What each link carries in all steps together, in parts of M.
    on_links: Vec<Rational>,
    /// Of all steps, per M.
    pub time: Rational,
    place: String,
    exactness: Exactness,
}

impl Loaded {
    /// The loads of a plan of steps, which need not be right.
    pub fn new(plan: &Plan, fabric: &Fabric<'_>, steps: &Steps) -> Result<Loaded, Violation> {
        Loaded::of(fabric, steps, &Shards::new(plan, fabric)?)
    }

    /// The same, where the shards are known.
    pub fn of(fabric: &Fabric<'_>, steps: &Steps, shards: &Shards) -> Result<Loaded, Violation> {
        let mut of_groups: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, group) in fabric.groups().iter().enumerate() {
            group.links.iter().for_each(|link| of_groups.entry(*link).or_default().push(number));
        }
        let mut loads = Vec::with_capacity(steps.steps.len());
        let mut scratch = vec![(0, 0); fabric.topology.links().len()];
        let mut sums = vec![0; scratch.len()];
        for step in &steps.steps {
            loads.push(load(fabric, steps, shards, step, &of_groups, &mut scratch, &mut sums));
        }
        check_common_denominator(loads.iter().flat_map(|load| [&load.time, &load.shards]), "/content/steps")?;
        let one = &Rational::from(steps.p) * &whole(shards.total);
        let on_links = sums.into_iter().map(|sum| whole(sum).checked_div(&one).unwrap_or(Rational::ZERO)).collect();
        let slowest = loads.iter().reduce(|a, b| if b.time > a.time { b } else { a });
        let place = slowest.map_or("no link", |slowest| &slowest.place);
        let (time, place, exactness) = match &steps.step_length {
            None => (loads.iter().map(|load| &load.time).sum(), format!("{place} in its step"), Exactness::Exact),
            Some(length) => {
                let number = Rational::from(steps.steps.len() as u64);
                (length * &number, format!("{number} steps of {length}"), Exactness::Lp)
            }
        };
        Ok(Loaded { loads, on_links, time, place, exactness })
    }
}

/// Compares what is claimed of times and loads with what they are; gives the achieved figure that a bound is about.
pub fn check(
    plan: &Plan,
    fabric: &Fabric<'_>,
    steps: &Steps,
    shards: &Shards,
    loaded: Loaded,
    report: &mut Report,
) -> Result<Achieved, Violation> {
    let Loaded { loads, on_links, time, place, exactness } = loaded;
    let used = steps.steps.iter().rposition(|step| step.all().next().is_some()).map_or(0, |last| last + 1);
    own_claims(plan, fabric, shards, &loads[..used], report)?;
    if let Some(length) = &steps.step_length {
        long_enough(&loads, length)?;
    }
    let kind = plan.body.claim.certificate.as_ref().map(|certificate| certificate.kind);
    if kind == Some(CertificateKind::Diameter) {
        cost::check(plan, fabric, &on_links, &time, exactness, report)?;
        return steps_alone(plan, used);
    }
    report.figures = Some(Figures::new(fabric, &time, &place));
    claims::time(plan, fabric, &time, &place, exactness, report)?;
    cost::check(plan, fabric, &on_links, &time, exactness, report)?;
    Ok(Achieved { value: time, quantity: Quantity::TimePerByte, exactness })
}

/// The loads of a step. `on_links` has per link the amount in units of a share of one, and in units of a shard, whatever
/// its share: nothing before and after; `sums` has the first of both for all steps.
fn load(
    fabric: &Fabric<'_>,
    steps: &Steps,
    shards: &Shards,
    step: &Step,
    of_groups: &HashMap<usize, Vec<usize>>,
    on_links: &mut [(u128, u128)],
    sums: &mut [u128],
) -> Load {
    let mut used: Vec<usize> = Vec::new();
    let mut on_groups: HashMap<usize, u128> = HashMap::new();
    for send in step.all() {
        let Some(item) = shards.item(send.shard) else { continue };
        let units = u128::from(send.hi - send.lo);
        let amount = units * shards.share(item);
        let link = send.link as usize;
        let Some(on) = on_links.get_mut(link) else { continue };
        if *on == (0, 0) {
            used.push(link);
        }
        (on.0, on.1) = (on.0 + amount, on.1 + units);
        for group in of_groups.get(&link).into_iter().flatten() {
            *on_groups.entry(*group).or_default() += amount;
        }
    }
    let one = &Rational::from(steps.p) * &whole(shards.total);
    let mut slowest = Load { time: Rational::ZERO, place: "no link".into(), shards: Rational::ZERO };
    let mut consider = |amount: u128, capacity: &Capacity, place: &dyn Fn() -> String| {
        let part = whole(amount).checked_div(&one);
        let Some(time) = capacity.finite().zip(part).and_then(|(capacity, part)| part.checked_div(capacity)) else {
            return;
        };
        if time > slowest.time {
            (slowest.time, slowest.place) = (time, place());
        }
    };
    used.sort_unstable();
    let take = |link: usize| {
        let (amount, units) = std::mem::take(&mut on_links[link]);
        sums[link] += amount;
        (link, amount, units)
    };
    let links: Vec<(usize, u128, u128)> = used.into_iter().map(take).collect();
    for (link, amount, _) in &links {
        let of = &fabric.topology.links()[*link];
        consider(*amount, &of.capacity, &|| format!("{} → {}", fabric.id(of.from), fabric.id(of.to)));
    }
    for (number, group) in fabric.groups().iter().enumerate() {
        if let Some(amount) = on_groups.get(&number) {
            consider(*amount, &group.capacity, &|| format!("group {}", group.name));
        }
    }
    let most = links.iter().map(|(_, _, units)| *units).max().unwrap_or(0);
    slowest.shards = whole(most).checked_div(&Rational::from(steps.p)).unwrap_or(Rational::ZERO);
    slowest
}

/// A whole number as a fraction.
fn whole(number: u128) -> Rational {
    Rational::from_big(number.into(), 1.into()).unwrap_or(Rational::ZERO)
}

/// Every step of a given length has time for what is sent in it; where no link in use has a limit, no time will do.
fn long_enough(loads: &[Load], length: &Rational) -> Result<(), Violation> {
    match loads.iter().enumerate().find(|(_, load)| load.time > *length) {
        _ if length.is_negative() => {
            Err(Violation::new(Code::Overload, "/content/step_length", format!("steps of length {length}")))
        }
        None => Ok(()),
        Some((i, load)) => {
            let message = format!("{} needs {} for what it carries, and a step has {length}", load.place, load.time);
            Err(Violation::new(Code::Overload, format!("/content/steps/{i}"), message))
        }
    }
}

/// `T_L`, `loads`, `load_sum` and `T_B`.
fn own_claims(
    plan: &Plan,
    fabric: &Fabric<'_>,
    shards: &Shards,
    loads: &[Load],
    report: &mut Report,
) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let wrong = |key: &str, message: String| Err(Violation::new(Code::WrongLoads, format!("/claim/{key}"), message));
    if let Some(claimed) = claim.t_l {
        if claimed != loads.len() as u64 {
            return wrong("T_L", format!("the last step that sends anything is number {}", loads.len()));
        }
        report.proved.push(format!("T_L {claimed}"));
    }
    if let Some(claimed) = &claim.loads {
        let same = claimed.iter().map(|load| &load.0).eq(loads.iter().map(|load| &load.shards));
        if !same {
            let all: Vec<String> = loads.iter().take(8).map(|load| load.shards.to_string()).collect();
            return wrong(
                "loads",
                format!("the sends say {}{}", all.join(", "), if loads.len() > 8 { ", …" } else { "" }),
            );
        }
        report.proved.push("the loads of all steps".into());
    }
    let sum: Rational = loads.iter().map(|load| &load.shards).sum();
    if let Some(Exact(claimed)) = &claim.load_sum {
        if *claimed != sum {
            return wrong("load_sum", format!("the loads add up to {sum}"));
        }
        report.proved.push(format!("load_sum {sum}"));
    }
    if let Some(claimed) = &claim.t_b {
        // d links of B/d each: M/B times d, times what the busiest carries of M.
        let of_m = |degree: u64| {
            let largest = shards.largest();
            whole(largest).checked_div(&whole(shards.total)).map(|part| &(&part * &Rational::from(degree)) * &sum)
        };
        let t_b = regular(fabric).filter(|_| shards.is_even()).and_then(of_m);
        if claimed.0.as_ref().map(|exact| &exact.0) != t_b.as_ref() {
            return match t_b {
                Some(t_b) => wrong("T_B", format!("the loads say {t_b}")),
                None => wrong("T_B", "null: there is no bandwidth of a node where nodes or shards differ".into()),
            };
        }
        report.proved.push(t_b.map_or("no T_B".into(), |t_b| format!("T_B {t_b}")));
    }
    Ok(())
}

/// Links into and out of every node, where that is one number and all links are equally fast; loops take a port too.
fn regular(fabric: &Fabric<'_>) -> Option<u64> {
    let mut degrees = vec![(0_u64, 0_u64); fabric.topology.nodes().len()];
    let links = fabric.topology.links();
    for link in links {
        degrees[link.from].0 += 1;
        degrees[link.to].1 += 1;
    }
    let (out, into) = *degrees.first()?;
    let even = links.windows(2).all(|pair| pair[0].capacity == pair[1].capacity);
    (out == into && even && degrees.iter().all(|degree| *degree == (out, into))).then_some(out)
}

/// A certificate about the number of steps: the bound is about that then, and not about time per byte.
fn steps_alone(plan: &Plan, used: usize) -> Result<Achieved, Violation> {
    if plan.body.claim.time_per_byte.is_some() {
        let message = "a diameter bounds the number of steps, and the bound is about `time_per_byte`";
        return Err(Violation::new(Code::BadCertificate, "/claim/certificate/kind", message));
    }
    if plan.body.claim.algorithm_bandwidth.is_some() || plan.body.claim.t_l.is_none() {
        let message = "a diameter bounds the number of steps: claim `T_L` beside it, and no bandwidth";
        return Err(Violation::new(Code::BadCertificate, "/claim/certificate/kind", message));
    }
    Ok(Achieved { value: Rational::from(used as u64), quantity: Quantity::Steps, exactness: Exactness::Exact })
}

impl Figures {
    /// Time and what follows from it.
    pub(super) fn new(fabric: &Fabric<'_>, time: &Rational, place: &str) -> Figures {
        let unit: Unit = fabric.topology.unit();
        Figures {
            time_per_byte: time.clone(),
            algorithm_bandwidth: time.recip().map(|rate| unit.express(&rate)),
            unit,
            lower_bound: None,
            cost: None,
            cost_lower_bound: None,
            bottleneck: place.to_owned(),
        }
    }
}
