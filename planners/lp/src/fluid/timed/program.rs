//! The program over places: what crosses which link in which step, of every block and for each of its ends.
//!
//! Variables: f, the flow of a block to one end, and w, what the block takes of a link in a step, not less than any f; the
//! length of a step, or where limits count all steps together the time of them all. Data waits for nothing where it can be
//! stored. Flows exist only between places that the root reaches and that reach the end, so that nothing begins or ends at
//! a node that has no part in it. Of pieces w is a whole number. Then whatever w carries to an end is a way of its own, f
//! need not be whole, and nodes that cannot copy pass on each piece once.

use super::super::draft::Draft;
use super::super::failed;
use super::places::{Due, Places};
use crate::columns::MAX_COLUMNS;
use sluice_formats::quantity::Rational;
use sluice_planners::fluid::demand::{Block, Shape};
use sluice_planners::fluid::network::Network;
use sluice_planners::fluid::refusal::Refusal;
use sluice_planners::fluid::rounds::Crossed;
use sluice_planners::fluid::timed::Reach;
use sluice_planners::fluid::view::View;
use sluice_solver::{Bounds, Failed, Program, Row, Sense};

/// How nodes are dealt with that cannot copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The view has them as they are: they take in as much of w as they give out.
    Balanced,
    /// The view has taken them apart.
    Apart,
    /// The same, and every copy passes on as many whole pieces as it takes in.
    Counted,
}

/// What moves where, and what is counted.
pub struct Setting<'a> {
    /// The fabric, in the direction of the blocks.
    pub network: &'a Network,
    /// What trees see of it.
    pub view: &'a View,
    /// What paths see of it: all.
    pub plain: &'a View,
    /// What is moved, one block after the other.
    pub blocks: &'a [Block],
    /// How nodes are dealt with that cannot copy.
    pub through: Through,
    /// Pieces of a block's data; `None`: a fluid.
    pub pieces: Option<u64>,
    /// Do limits count all steps together?
    pub together: bool,
}

/// What is to be least.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// The time, which is below this.
    Time(f64),
    /// The cost within this time.
    Cost(f64),
}

/// Columns of the data of a block, or of one piece of it.
struct Columns {
    block: usize,
    /// By step and link of its view.
    links: Vec<Vec<Option<usize>>>,
    /// By step and node of its view: what waits there. Of trees only where that counts.
    waits: Vec<Vec<Option<usize>>>,
}

/// A program, and where its parts stand.
pub struct Built {
    /// The program, with all rows and columns.
    pub program: Program,
    /// How many columns it has.
    pub columns: usize,
    parts: Vec<Columns>,
}

impl Built {
    /// A program for so many steps.
    ///
    /// # Errors
    /// `TooLarge`, `Solver`.
    pub fn new(setting: &Setting<'_>, steps: usize, goal: Goal) -> Result<Built, Refusal> {
        let too_many =
            Refusal::TooLarge { what: "columns of the program", found: MAX_COLUMNS + 1, allowed: MAX_COLUMNS };
        // Pieces that cannot be are not counted one by one.
        if setting.pieces.is_some_and(|pieces| pieces > MAX_COLUMNS as u64) {
            return Err(too_many);
        }
        Building::new(setting, steps, goal).and_then(Building::build).map_err(failed)?.ok_or(too_many)
    }

    /// By block and piece how often links are crossed.
    pub fn crossed(&self, values: &[f64]) -> impl Iterator<Item = (usize, Crossed)> {
        let value = move |column: &Option<usize>| column.map_or(0, |column| values[column].round().max(0.0) as u32);
        let all = move |columns: &[Vec<Option<usize>>]| -> Vec<Vec<u32>> {
            columns.iter().map(|step| step.iter().map(value).collect()).collect()
        };
        self.parts.iter().map(move |part| (part.block, Crossed { links: all(&part.links), waits: all(&part.waits) }))
    }
}

struct Building<'a> {
    setting: &'a Setting<'a>,
    steps: usize,
    program: Program,
    draft: Draft,
    costs: bool,
    /// By step, or once, the row of each limit that limits something.
    limits: Vec<Vec<Option<Row>>>,
    parts: Vec<Columns>,
}

impl<'a> Building<'a> {
    fn new(setting: &'a Setting<'a>, steps: usize, goal: Goal) -> Result<Building<'a>, Failed> {
        let (mut program, mut draft) = (Program::new(Sense::Minimise), Draft::default());
        let (costs, worth, most) = match goal {
            Goal::Time(most) => (false, 1.0, most),
            Goal::Cost(most) => (true, 0.0, most),
        };
        let time = draft.column(worth, most);
        let mut limits = Vec::new();
        for _ in 0..if setting.together { 1 } else { steps } {
            let mut rows = Vec::with_capacity(setting.network.groups.len());
            for group in &setting.network.groups {
                rows.push(match group.rate.is_finite() {
                    true => {
                        let row = program.row(Bounds::at_most(0.0))?;
                        draft.entry(time, row, -group.rate);
                        Some(row)
                    }
                    false => None,
                });
            }
            limits.push(rows);
        }
        Ok(Building { setting, steps, program, draft, costs, limits, parts: Vec::new() })
    }

    fn build(mut self) -> Result<Option<Built>, Failed> {
        for (number, block) in self.setting.blocks.iter().enumerate() {
            let times = match block.shape {
                Shape::Tree => self.setting.pieces.unwrap_or(1),
                Shape::Paths => 1,
            };
            for _ in 0..times {
                match block.shape {
                    Shape::Tree => self.tree(number, block)?,
                    Shape::Paths => self.paths(number, block)?,
                }
                if self.draft.is_full() {
                    return Ok(None);
                }
            }
        }
        let columns = self.draft.columns.len();
        self.draft.enter(&mut self.program)?;
        Ok(Some(Built { program: self.program, columns, parts: self.parts }))
    }

    /// What one of w is, in units of the method.
    fn amount(&self, block: &Block) -> f64 {
        let pieces = Rational::from(self.setting.pieces.unwrap_or(1));
        match self.setting.pieces {
            Some(_) => block.units.checked_div(&pieces).unwrap_or(Rational::ZERO).to_f64(),
            None => 1.0,
        }
    }

    /// A column of w, in every limit of its link.
    fn crossing(&mut self, view: &View, amount: f64, upper: f64, edge: usize) -> usize {
        let cost = if self.costs { amount * view.network.edges[edge].cost } else { 0.0 };
        match self.setting.pieces {
            Some(_) => self.draft.integer(cost, upper),
            None => self.draft.column(cost, f64::INFINITY),
        }
    }

    /// Enters the columns of w in the limits.
    fn limit(&mut self, view: &View, amount: f64, links: &[Vec<Option<usize>>]) {
        for (step, links) in links.iter().enumerate() {
            let rows = &self.limits[if self.setting.together { 0 } else { step }];
            for (group, row) in view.network.groups.iter().zip(rows) {
                let Some(row) = row else { continue };
                for column in group.edges.iter().filter_map(|edge| links[*edge as usize]) {
                    self.draft.entry(column, *row, amount);
                }
            }
        }
    }

    /// One piece of a tree's data, or all of it.
    fn tree(&mut self, number: usize, block: &Block) -> Result<(), Failed> {
        let Setting { view, pieces, .. } = *self.setting;
        let seen = &view.network;
        let amount = self.amount(block);
        let due = if pieces.is_some() { 1.0 } else { block.units.to_f64() };
        let mut links: Vec<Vec<Option<usize>>> = vec![vec![None; seen.edges.len()]; self.steps];
        let mut waits: Vec<Vec<Option<usize>>> = vec![vec![None; seen.nodes()]; self.steps];
        let from = Reach::from(seen, block.root, self.steps);
        for end in &block.ends {
            let to = Reach::to(seen, *end, self.steps);
            let mut rows = Places::new(seen.nodes(), self.steps);
            for step in 0..self.steps {
                for (index, edge) in seen.edges.iter().enumerate() {
                    // Where it stays for nothing, nothing for an end leaves it and nothing comes back to the root.
                    let idle = (edge.from == *end && seen.can[*end as usize].store)
                        || (edge.to == block.root && seen.can[block.root as usize].store);
                    if idle || !from.has(edge.from, step) || !to.has(edge.to, step + 1) {
                        continue;
                    }
                    let all = match links[step][index] {
                        Some(column) => column,
                        None => self.crossing(view, amount, self.most(index), index),
                    };
                    links[step][index] = Some(all);
                    let flow = self.below(all)?;
                    rows.between(flow, (edge.from, step), (edge.to, step + 1));
                }
                for node in (0..seen.nodes() as u32).filter(|node| seen.can[*node as usize].store) {
                    if !from.has(node, step) || !to.has(node, step + 1) {
                        continue;
                    }
                    let flow = match self.counts(node) {
                        true => {
                            let kept = &mut waits[step][node as usize];
                            let all = *kept.get_or_insert_with(|| self.draft.column(0.0, f64::INFINITY));
                            self.below(all)?
                        }
                        false => self.draft.column(0.0, f64::INFINITY),
                    };
                    rows.between(flow, (node, step), (node, step + 1));
                }
                if self.draft.is_full() {
                    return Ok(());
                }
            }
            rows.finish(&mut self.program, &mut self.draft, (block.root, 0), &[((*end, self.steps), due)])?;
        }
        self.limit(view, amount, &links);
        self.balance(view, &links, &waits)?;
        if self.setting.through == Through::Counted && self.leaves_early() {
            self.has_what_it_sends(block, &links)?;
        }
        self.parts.push(Columns { block: number, links, waits });
        Ok(())
    }

    /// A column of f, which is not above a column of w.
    fn below(&mut self, all: usize) -> Result<usize, Failed> {
        let flow = self.draft.column(0.0, f64::INFINITY);
        let row = self.program.row(Bounds::at_most(0.0))?;
        self.draft.entry(flow, row, 1.0);
        self.draft.entry(all, row, -1.0);
        Ok(flow)
    }

    /// Must a node pass on as much of w as it takes in?
    fn counts(&self, node: u32) -> bool {
        let view = self.setting.view;
        match self.setting.through {
            Through::Balanced => !self.setting.network.copies(view.node(node)),
            Through::Apart => false,
            Through::Counted => view.exit(node).is_some(),
        }
    }

    /// How often a piece may cross a link in a step: once, but on the way to a node that must pass on several at once
    /// because it cannot keep any.
    fn most(&self, index: usize) -> f64 {
        let Setting { view, .. } = self.setting;
        let edge = view.network.edges[index];
        let exits = [edge.from, edge.to].into_iter().filter_map(|node| view.exit(node));
        let keeps = |exit: u32| view.network.can[exit as usize].store;
        if exits.into_iter().all(keeps) { 1.0 } else { self.steps as f64 }
    }

    /// Does data for a node that cannot keep it go through one that cannot copy? Then it may have to arrive there several
    /// times, and must be sent as often.
    fn leaves_early(&self) -> bool {
        let Setting { view, .. } = self.setting;
        let exits = (0..view.network.nodes() as u32).filter_map(|node| view.exit(node));
        exits.into_iter().any(|exit| !view.network.can[exit as usize].store)
    }

    /// Nodes that count take in what they give out.
    fn balance(
        &mut self,
        view: &View,
        links: &[Vec<Option<usize>>],
        waits: &[Vec<Option<usize>>],
    ) -> Result<(), Failed> {
        let seen = &view.network;
        for node in (0..seen.nodes() as u32).filter(|node| self.counts(*node)).collect::<Vec<u32>>() {
            for step in 1..self.steps {
                let of = |list: &[u32], step: usize| -> Vec<usize> {
                    let over = list.iter().filter_map(|edge| links[step][*edge as usize]);
                    over.chain(waits[step][node as usize]).collect()
                };
                let (into, out) = (of(seen.into(node), step - 1), of(seen.out(node), step));
                if into.is_empty() && out.is_empty() {
                    continue;
                }
                let row = self.program.row(Bounds::exactly(0.0))?;
                into.into_iter().for_each(|column| self.draft.entry(column, row, 1.0));
                out.into_iter().for_each(|column| self.draft.entry(column, row, -1.0));
            }
        }
        Ok(())
    }

    /// A node that copies sends only what it got before; it keeps it where it can, else it has it for one step.
    fn has_what_it_sends(&mut self, block: &Block, links: &[Vec<Option<usize>>]) -> Result<(), Failed> {
        let seen = &self.setting.view.network;
        for step in 0..self.steps {
            for (index, edge) in seen.edges.iter().enumerate() {
                let stores = seen.can[edge.from as usize].store;
                let is_source = edge.from == block.root && (step == 0 || stores);
                let Some(column) = links[step][index].filter(|_| !is_source && !self.counts(edge.from)) else {
                    continue;
                };
                let row = self.program.row(Bounds::at_most(0.0))?;
                self.draft.entry(column, row, 1.0);
                let most = self.most(index);
                let since = if stores { 0 } else { step.saturating_sub(1) };
                for before in &links[since..step] {
                    for got in seen.into(edge.from).iter().filter_map(|edge| before[*edge as usize]) {
                        self.draft.entry(got, row, -most);
                    }
                }
            }
        }
        Ok(())
    }

    /// All data of a root whose ends have data of their own.
    fn paths(&mut self, number: usize, block: &Block) -> Result<(), Failed> {
        let Setting { plain: view, pieces, .. } = *self.setting;
        let seen = &view.network;
        let amount = self.amount(block);
        let due = pieces.map_or(block.units.to_f64(), |pieces| pieces as f64);
        let most = due * block.ends.len() as f64;
        let from = Reach::from(seen, block.root, self.steps);
        let to: Vec<Reach> = block.ends.iter().map(|end| Reach::to(seen, *end, self.steps)).collect();
        let leads = |node: u32, step: usize| to.iter().any(|to| to.has(node, step));
        let mut links = vec![vec![None; seen.edges.len()]; self.steps];
        let mut waits = vec![vec![None; seen.nodes()]; self.steps];
        let mut rows = Places::new(seen.nodes(), self.steps);
        for step in 0..self.steps {
            for (index, edge) in seen.edges.iter().enumerate() {
                if from.has(edge.from, step) && leads(edge.to, step + 1) {
                    let column = self.crossing(view, amount, most, index);
                    links[step][index] = Some(column);
                    rows.between(column, (edge.from, step), (edge.to, step + 1));
                }
            }
            for node in (0..seen.nodes() as u32).filter(|node| seen.can[*node as usize].store) {
                if from.has(node, step) && leads(node, step + 1) {
                    let column = self.draft.column(0.0, f64::INFINITY);
                    waits[step][node as usize] = Some(column);
                    rows.between(column, (node, step), (node, step + 1));
                }
            }
            if self.draft.is_full() {
                return Ok(());
            }
        }
        let dues: Vec<Due> = block.ends.iter().map(|end| ((*end, self.steps), due)).collect();
        rows.finish(&mut self.program, &mut self.draft, (block.root, 0), &dues)?;
        self.limit(view, amount, &links);
        self.parts.push(Columns { block: number, links, waits });
        Ok(())
    }
}
