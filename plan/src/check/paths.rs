//! Kind `paths`: every pair that has something to exchange exchanges all of it, over paths that exist.

use std::collections::HashMap;

use super::fabric::Fabric;
use super::load::Loads;
use super::violation::{Code, Violation};
use super::{Report, achieved::Exactness};
use crate::plan::{Collective, Paths, Plan};
use sluice_formats::quantity::Rational;

/// Checks the paths; gives the loads in parts of M.
pub fn check(
    plan: &Plan,
    fabric: &Fabric<'_>,
    paths: &Paths,
    report: &mut Report,
) -> Result<(Loads, Exactness), Violation> {
    let collective = plan.body.collective;
    if !matches!(collective, Collective::AllToAll | Collective::Scatter | Collective::Gather) {
        return Err(Fabric::unserved(collective, "paths"));
    }
    if collective == Collective::AllToAll && fabric.participants.iter().any(|node| fabric.share(*node) != 1) {
        let message = "an all-to-all gives every pair the same amount; node weights other than 1 mean nothing in it";
        return Err(Violation::new(Code::UnsupportedField, "/topology/inline/nodes", message));
    }
    let owes = |src: usize, dst: usize| match collective {
        Collective::Scatter => Some(src) == fabric.root,
        Collective::Gather => Some(dst) == fabric.root,
        _ => true,
    };
    super::check_common_denominator(paths.pairs.iter().map(|pair| &pair.amount), "/content/pairs")?;
    let n = fabric.participants.len();
    let part = Rational::new(1, n as i128).unwrap_or(Rational::ONE);
    let (mut loads, mut exactness) = (Loads::new(fabric), Exactness::Exact);
    let mut sums: HashMap<(usize, usize), Rational> = HashMap::new();
    for (i, pair) in paths.pairs.iter().enumerate() {
        let at = |key: &str| format!("/content/pairs/{i}{key}");
        let (src, dst) = (fabric.node(plan, pair.src, || at("/src"))?, fabric.node(plan, pair.dst, || at("/dst"))?);
        if src == dst || !fabric.takes_part(src) || !fabric.takes_part(dst) || !owes(src, dst) {
            let message = format!("{} owes {} nothing in this collective", fabric.id(src), fabric.id(dst));
            return Err(Violation::new(Code::WrongShare, at(""), message));
        }
        if !pair.amount.is_positive() {
            return Err(Violation::new(Code::BadWeight, at("/amount"), format!("an amount of {}", pair.amount)));
        }
        if !pair.amount.is_integer() {
            exactness = Exactness::Lp;
        }
        if pair.path.first() != Some(&pair.src) || pair.path.last() != Some(&pair.dst) || pair.path.len() < 2 {
            let message = format!("the path does not lead from {} to {}", fabric.id(src), fabric.id(dst));
            return Err(Violation::new(Code::BrokenPath, at("/path"), message));
        }
        let load = &pair.amount * &part;
        for (j, hop) in pair.path.windows(2).enumerate() {
            let from = fabric.node(plan, hop[0], || at(&format!("/path/{j}")))?;
            let to = fabric.node(plan, hop[1], || at(&format!("/path/{}", j + 1)))?;
            let Some(cable) = fabric.cable(from, to) else {
                let message = format!("no link leads from {} to {}", fabric.id(from), fabric.id(to));
                return Err(Violation::new(Code::NoLink, at(&format!("/path/{}", j + 1)), message));
            };
            loads.add(cable, &load);
        }
        *sums.entry((src, dst)).or_insert(Rational::ZERO) += &pair.amount;
    }
    // Only a root owes, or is owed, in a rooted collective: looking at all pairs there would take for ever.
    let only = |end: bool| match fabric.root {
        Some(root) if end => vec![root],
        _ => fabric.participants.clone(),
    };
    let (sources, targets) = (only(collective == Collective::Scatter), only(collective == Collective::Gather));
    for src in &sources {
        for dst in targets.iter().filter(|dst| *dst != src) {
            let sum = sums.get(&(*src, *dst)).unwrap_or(&Rational::ZERO);
            if *sum != Rational::ONE {
                let message =
                    format!("{} gives {} the part {sum} of what it owes it", fabric.id(*src), fabric.id(*dst));
                return Err(Violation::new(Code::WrongShare, "/content/pairs", message));
            }
        }
    }
    let (pairs, count) = (sums.len(), paths.pairs.len());
    report.proved.push(format!("all {pairs} pairs exchange all their data, over {count} paths that exist"));
    Ok((loads, exactness))
}
