//! The time of synchronised steps: each begins when the one before has ended on all links.

use std::collections::{BTreeMap, HashMap};

use crate::check::{Fabric, Shards, Violation};
use crate::plan::{Plan, Steps};
use sluice_formats::quantity::Rational;

/// A step: the links and groups that take longest at some size.
#[derive(Clone, Debug)]
pub struct Step(Vec<Line>);

/// What a link or a group needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub latency: Rational,
    /// Time per byte of M.
    pub per_byte: Rational,
}

impl Step {
    pub fn time(&self, size: &Rational) -> Rational {
        let times = self.0.iter().map(|line| &line.latency + &(size * &line.per_byte));
        times.max().unwrap_or(Rational::ZERO)
    }
    pub fn per_byte(&self) -> Rational {
        self.0.iter().map(|line| line.per_byte.clone()).max().unwrap_or(Rational::ZERO)
    }
    /// Of those that take longer than all others at no size nothing is kept.
    pub fn new(mut lines: Vec<Line>) -> Step {
        lines.sort_by(|a, b| b.per_byte.cmp(&a.per_byte).then(b.latency.cmp(&a.latency)));
        let mut kept: Vec<Line> = Vec::new();
        for line in lines {
            if kept.last().is_none_or(|last| line.latency > last.latency) {
                kept.push(line);
            }
        }
        Step(kept)
    }
}

/// The steps of a plan.
pub fn of(plan: &Plan, fabric: &Fabric<'_>, steps: &Steps) -> Result<Vec<Step>, Violation> {
    let shards = Shards::new(plan, fabric)?;
    let mut of_groups: HashMap<usize, Vec<usize>> = HashMap::new();
    for (number, group) in fabric.groups().iter().enumerate() {
        group.links.iter().for_each(|link| of_groups.entry(*link).or_default().push(number));
    }
    let one = &Rational::from(steps.p) * &whole(shards.total);
    let links = fabric.topology.links();
    let step = |step: &crate::plan::Step| {
        let mut on_links: BTreeMap<usize, u128> = BTreeMap::new();
        for send in step.all() {
            let share = shards.item(send.shard).map_or(0, |item| shards.share(item));
            *on_links.entry(send.link as usize).or_default() += u128::from(send.hi - send.lo) * share;
        }
        let mut on_groups: BTreeMap<usize, (Rational, u128)> = BTreeMap::new();
        let mut lines = Vec::new();
        for (link, amount) in on_links {
            let latency = &links[link].latency;
            for group in of_groups.get(&link).into_iter().flatten() {
                let on = on_groups.entry(*group).or_insert((Rational::ZERO, 0));
                *on = (latency.max(&on.0).clone(), on.1 + amount);
            }
            lines.push((latency.clone(), amount, links[link].capacity.finite()));
        }
        let groups = on_groups.into_iter();
        lines.extend(
            groups.map(|(group, (latency, amount))| (latency, amount, fabric.groups()[group].capacity.finite())),
        );
        let line = |(latency, amount, capacity): (Rational, u128, Option<&Rational>)| {
            let part = whole(amount).checked_div(&one);
            let per_byte = capacity.zip(part).and_then(|(capacity, part)| part.checked_div(capacity));
            let per_byte = steps.step_length.clone().or(per_byte).unwrap_or(Rational::ZERO);
            Line { latency, per_byte }
        };
        let mut lines: Vec<Line> = lines.into_iter().map(line).collect();
        if let (true, Some(length)) = (lines.is_empty(), &steps.step_length) {
            lines.push(Line { latency: Rational::ZERO, per_byte: length.clone() });
        }
        Step::new(lines)
    };
    Ok(steps.steps.iter().map(step).collect())
}

fn whole(number: u128) -> Rational {
    Rational::from_big(number.into(), 1.into()).unwrap_or(Rational::ZERO)
}
