//! The integer program of section 6 with all its strengthenings, solved by HiGHS: a second opinion on the search.

use super::{brute, generated, near, quiet, small};
use sluice_planners_lp::wan::{Limits, nonconcurrent};
use sluice_planners_wan::{Instance, greedy, multiring};
use sluice_solver::{Answer, Bounds, Column, Options, Program, Row, Sense};
use std::time::{Duration, Instant};

/// A program that is put together by rows.
#[derive(Default)]
struct Draft {
    rows: Vec<(Bounds, Vec<(usize, f64)>)>,
    /// Cost, bounds, is it a whole number.
    columns: Vec<(f64, Bounds, bool)>,
}

impl Draft {
    fn column(&mut self, cost: f64, bounds: Bounds, whole: bool) -> usize {
        self.columns.push((cost, bounds, whole));
        self.columns.len() - 1
    }
    fn at_most(&mut self, terms: Vec<(usize, f64)>, bound: f64) {
        self.rows.push((Bounds::at_most(bound), terms));
    }
    fn program(self) -> Program {
        let mut program = Program::new(Sense::Minimise);
        let mut entries: Vec<Vec<(Row, f64)>> = vec![Vec::new(); self.columns.len()];
        for (bounds, terms) in self.rows {
            let row = program.row(bounds).expect("a row");
            terms.into_iter().for_each(|(column, factor)| entries[column].push((row, factor)));
        }
        for ((cost, bounds, whole), entries) in self.columns.into_iter().zip(entries) {
            let _: Column = match whole {
                true => program.integer(cost, bounds, entries),
                false => program.column(cost, bounds, entries),
            }
            .expect("a column");
        }
        program
    }
}

/// Solves the program of an instance of chains; the value, and whether it is optimal.
fn by_program(instance: &Instance, limit: Duration) -> (f64, bool) {
    let (count, collectives) = (instance.flows().len(), instance.collectives());
    let alone: Vec<f64> = (0..count).map(|flow| instance.alone(flow)).collect();
    let least = multiring::bounds(instance, &alone);
    let greedy = greedy::Key::ALL.map(|key| greedy::nonconcurrent(instance, key).starts);
    let ends = |starts: &[f64]| {
        let mut t = vec![0.0_f64; collectives];
        for (flow, start) in starts.iter().enumerate() {
            let t = &mut t[instance.flows()[flow].collective];
            *t = t.max(start + instance.duration(flow));
        }
        t
    };
    let total = |starts: &[f64]| ends(starts).iter().sum::<f64>();
    let start = greedy.iter().min_by(|one, other| total(one).total_cmp(&total(other))).expect("three");
    let horizon: Vec<f64> = least.iter().map(|own| total(start) - least.iter().sum::<f64>() + own).collect();
    let (mut head, mut tail) = (vec![0.0; count], vec![0.0; count]);
    for group in instance.groups() {
        group.flows.windows(2).for_each(|pair| head[pair[1]] = head[pair[0]] + instance.duration(pair[0]));
        group.flows.windows(2).rev().for_each(|pair| tail[pair[0]] = tail[pair[1]] + instance.duration(pair[1]));
    }
    let last: Vec<f64> = (0..count)
        .map(|flow| horizon[instance.flows()[flow].collective] - tail[flow] - instance.duration(flow))
        .collect();
    let mut draft = Draft::default();
    for flow in 0..count {
        draft.column(0.0, Bounds { lower: head[flow], upper: last[flow] }, false);
    }
    for collective in 0..collectives {
        draft.column(1.0 / collectives as f64, Bounds { lower: least[collective], upper: horizon[collective] }, false);
    }
    for (before, after) in instance.dependencies() {
        draft.at_most(vec![(before, 1.0), (after, -1.0)], -instance.duration(before));
    }
    for group in instance.groups() {
        let flow = group.flows[group.flows.len() - 1];
        draft.at_most(vec![(flow, 1.0), (count + group.collective, -1.0)], -instance.duration(flow));
    }
    let pairs = brute::pairs(instance);
    let bits: Vec<usize> = pairs.iter().map(|_| draft.column(0.0, Bounds { lower: 0.0, upper: 1.0 }, true)).collect();
    for (&(one, other), &bit) in pairs.iter().zip(&bits) {
        let (first, then) = (instance.duration(one), instance.duration(other));
        let straight = last[one] - head[other] + first;
        draft.at_most(vec![(one, 1.0), (other, -1.0), (bit, straight)], straight - first);
        let back = last[other] - head[one] + then;
        draft.at_most(vec![(other, 1.0), (one, -1.0), (bit, -back)], -then);
    }
    // "One goes before the other" as a factor of a bit and a constant.
    let before = |one: usize, other: usize| {
        let at = pairs.iter().position(|pair| *pair == (one.min(other), one.max(other)))?;
        Some(if one < other { (bits[at], 1.0, 0.0) } else { (bits[at], -1.0, 1.0) })
    };
    for &(one, other) in pairs.iter().flat_map(|&(one, other)| [(one, other), (other, one)]).collect::<Vec<_>>().iter()
    {
        let earlier = instance.predecessors(one).iter().map(|earlier| (*earlier, other));
        let later = instance.successors(other).iter().map(|later| (one, *later));
        for (first, then) in earlier.chain(later) {
            if let (Some(this), Some(follows)) = (before(one, other), before(first, then)) {
                draft.at_most(vec![(this.0, this.1), (follows.0, -follows.1)], follows.2 - this.2);
            }
        }
    }
    let mut values = start.clone();
    values.extend(ends(start));
    values.extend(pairs.iter().map(|&(one, other)| if start[one] < start[other] { 1.0 } else { 0.0 }));
    let options = Options { gap: 1e-6, deadline: Instant::now().checked_add(limit), ..Options::default() };
    match draft.program().solve(&options, Some(&values)).expect("taken") {
        Answer::Optimal(solution) => (solution.objective, true),
        Answer::TimeLimit(Some(solution)) => (solution.objective, false),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_integer_program_finds_nothing_better_and_nothing_worse() {
    for instance in small().filter(|instance| brute::pairs(instance).len() <= 20) {
        let found = nonconcurrent(&instance, Limits::default(), &quiet()).expect("solved");
        let (value, optimal) = by_program(&instance, Duration::from_secs(60));
        assert!(optimal, "{}", instance.name());
        near(found.mean, value, 3e-6, instance.name());
    }
}

/// For comparison: `cargo test --release -- --ignored --nocapture program`.
#[test]
#[ignore = "minutes"]
fn program_and_search_on_two_rings_of_three() {
    let topologies = ["Arpanet196912", "Napnet", "Abilene"];
    for (topology, seed) in topologies.into_iter().flat_map(|topology| (1..=3).map(move |seed| (topology, seed))) {
        let instance = generated(topology, 2, 3, seed);
        let begin = Instant::now();
        let (value, optimal) = by_program(&instance, Duration::from_secs(60));
        let program = begin.elapsed();
        let begin = Instant::now();
        let found = nonconcurrent(&instance, Limits::default(), &quiet()).expect("solved");
        println!(
            "{}: program {value} {optimal} {program:?}, search {} {:?}",
            instance.name(),
            found.mean,
            begin.elapsed()
        );
        assert!(found.mean <= value * (1.0 + 3e-6));
        assert!(!optimal || value <= found.mean * (1.0 + 3e-6));
    }
}
