//! The rows of one flow over places: what comes in goes on, waits, or stays.

use super::super::draft::Draft;
use sluice_solver::{Bounds, Failed, Program};

/// A node after a number of steps.
pub type Place = (u32, usize);
/// A place and what is to stay there.
pub type Due = (Place, f64);

/// What goes into and out of the places of one flow.
pub struct Places {
    nodes: usize,
    steps: usize,
    flows: Vec<Vec<(usize, f64)>>,
}

impl Places {
    /// Of one that nothing flows in yet.
    pub fn new(nodes: usize, steps: usize) -> Places {
        Places { nodes, steps, flows: vec![Vec::new(); nodes * (steps + 1)] }
    }

    /// A column that leads from one place to another.
    pub fn between(&mut self, column: usize, from: Place, to: Place) {
        self.flows[from.1 * self.nodes + from.0 as usize].push((column, -1.0));
        self.flows[to.1 * self.nodes + to.0 as usize].push((column, 1.0));
    }

    /// A row for every place but the first.
    pub fn finish(self, program: &mut Program, draft: &mut Draft, root: Place, dues: &[Due]) -> Result<(), Failed> {
        for step in 0..=self.steps {
            for node in 0..self.nodes as u32 {
                let place = (node, step);
                let due = dues.iter().find(|(at, _)| *at == place).map_or(0.0, |(_, due)| *due);
                let flows = &self.flows[step * self.nodes + node as usize];
                if place == root || (flows.is_empty() && due == 0.0) {
                    continue;
                }
                let row = program.row(Bounds::exactly(due))?;
                flows.iter().for_each(|(column, sign)| draft.entry(*column, row, *sign));
            }
        }
        Ok(())
    }
}
