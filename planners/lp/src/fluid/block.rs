//! One block of a program by links: its columns, and the rows that make them a flow.
//!
//! Variables: f, the flow to one end, and w, what the block takes of a link, not less than any f. What w costs and which
//! limits it counts in is for the program that the block is part of.

use super::draft::Draft;
use sluice_planners::fluid::demand::Shape;
use sluice_planners::fluid::merging::Merged;
use sluice_planners::fluid::view::View;
use sluice_solver::{Bounds, Failed, Program};

/// Columns of one block.
pub struct Columns {
    /// By class of links the column of w; of paths that of the flow.
    pub w: Vec<Option<usize>>,
}

/// A block that is being added to a program.
pub struct Block<'a> {
    /// The fabric as the block sees it.
    pub view: &'a View,
    /// The block, and what is equal in it.
    pub merged: &'a Merged,
    /// Do nodes that cannot copy take in as much of w as they give out?
    pub balance: bool,
    /// The column of its root's share, where that is not fixed.
    pub root: Option<usize>,
}

impl Block<'_> {
    /// Its columns and rows; w costs nothing yet, and counts in no limit.
    ///
    /// # Errors
    /// The solver's.
    pub fn add(&self, program: &mut Program, draft: &mut Draft) -> Result<Columns, Failed> {
        let Block { view, merged, .. } = self;
        let network = &view.network;
        let mut w: Vec<Option<usize>> = vec![None; classes(&merged.edges)];
        for class in &merged.edges {
            w[*class as usize].get_or_insert_with(|| draft.column(0.0, f64::INFINITY));
        }
        let units = merged.block.units.to_f64();
        match merged.block.shape {
            Shape::Paths => {
                let wanted = |node: u32| if merged.block.ends.contains(&node) { units } else { 0.0 };
                self.conserve(program, draft, &merged.nodes, &merged.edges, &w, &wanted)?;
            }
            Shape::Tree => {
                for end in &merged.ends {
                    let mut f: Vec<Option<usize>> = vec![None; classes(&end.edges)];
                    for ((edge, class), all) in network.edges.iter().zip(&end.edges).zip(&merged.edges) {
                        // Nothing for an end leaves it, and nothing comes back to the root.
                        if edge.from == end.end || edge.to == merged.block.root || f[*class as usize].is_some() {
                            continue;
                        }
                        let column = draft.column(0.0, f64::INFINITY);
                        f[*class as usize] = Some(column);
                        if let Some(all) = w[*all as usize] {
                            let row = program.row(Bounds::at_most(0.0))?;
                            draft.entry(column, row, 1.0);
                            draft.entry(all, row, -1.0);
                        }
                    }
                    let wanted = |node: u32| if node == end.end { units } else { 0.0 };
                    self.conserve(program, draft, &end.nodes, &end.edges, &f, &wanted)?;
                }
                if self.balance {
                    self.balance(program, draft, &w)?;
                }
            }
        }
        Ok(Columns { w })
    }

    /// Every node but the root takes in what it gives out and what it wants.
    fn conserve(
        &self,
        program: &mut Program,
        draft: &mut Draft,
        nodes: &[u32],
        edges: &[u32],
        flow: &[Option<usize>],
        wanted: &dyn Fn(u32) -> f64,
    ) -> Result<(), Failed> {
        for node in representatives(nodes).filter(|node| *node != self.merged.block.root) {
            let due = wanted(node);
            // Where the root's share is not fixed, what is due stands on the left.
            let row = program.row(Bounds::exactly(if self.root.is_some() { 0.0 } else { due }))?;
            if let Some(root) = self.root.filter(|_| due != 0.0) {
                draft.entry(root, row, -due);
            }
            let network = &self.view.network;
            for (list, sign) in [(network.into(node), 1.0), (network.out(node), -1.0)] {
                for edge in list {
                    if let Some(column) = flow[edges[*edge as usize] as usize] {
                        draft.entry(column, row, sign);
                    }
                }
            }
        }
        Ok(())
    }

    /// Nodes that cannot copy take in as much of w as they give out.
    fn balance(&self, program: &mut Program, draft: &mut Draft, w: &[Option<usize>]) -> Result<(), Failed> {
        let network = &self.view.network;
        for node in representatives(&self.merged.nodes).filter(|node| !network.copies(*node)) {
            let row = program.row(Bounds::exactly(0.0))?;
            for (list, sign) in [(network.into(node), 1.0), (network.out(node), -1.0)] {
                for edge in list {
                    if let Some(column) = w[self.merged.edges[*edge as usize] as usize] {
                        draft.entry(column, row, sign);
                    }
                }
            }
        }
        Ok(())
    }
}

fn classes(of: &[u32]) -> usize {
    of.iter().map(|class| *class as usize + 1).max().unwrap_or(0)
}

/// The first of every class.
fn representatives(of: &[u32]) -> impl Iterator<Item = u32> {
    let mut seen = vec![false; classes(of)];
    of.iter().zip(0..).filter(move |(class, _)| !std::mem::replace(&mut seen[**class as usize], true)).map(|(_, i)| i)
}
