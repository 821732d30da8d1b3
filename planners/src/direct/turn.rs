//! Schedules made of schedules: backwards, on another graph, in finer units, one after the other.

use std::collections::HashMap;

use num_integer::Integer;

use super::bfb::MAX_UNITS;
use super::{Graph, Refusal, Schedule, Send, Shape};

impl Schedule {
    /// The schedule run backwards, on the graph with every edge turned around: of an all-gather a reduce-scatter, and the
    /// other way about, with the same loads in reversed order.
    #[must_use]
    pub fn transposed(mut self) -> Schedule {
        let steps = self.steps;
        for send in &mut self.sends {
            send.step = steps + 1 - send.step;
        }
        self.sends.sort_unstable();
        self.shape = match self.shape {
            Shape::AllGather => Shape::ReduceScatter,
            Shape::ReduceScatter => Shape::AllGather,
            Shape::AllReduce { reduce_steps } => Shape::AllReduce { reduce_steps: steps - reduce_steps },
        };
        self
    }

    /// The schedule of `from` on `onto`, where vertex v of the one is `map[v]` of the other; parallel edges go to parallel
    /// edges one to one. With the identity this turns a schedule of a transposed bidirectional graph into one of
    /// the graph.
    ///
    /// # Errors
    /// `NotReverseSymmetric` if the map does not take edges to edges one to one.
    pub fn mapped(mut self, from: &Graph, onto: &Graph, map: &[u32]) -> Result<Schedule, Refusal> {
        let mut there: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        for (id, edge) in onto.edges().iter().enumerate().rev() {
            there.entry((edge.tail, edge.head)).or_default().push(id as u32);
        }
        let vertex = |vertex: u32| map.get(vertex as usize).copied().ok_or(Refusal::NotReverseSymmetric);
        let mut edges = Vec::with_capacity(from.edges().len());
        for edge in from.edges() {
            let ends = (vertex(edge.tail)?, vertex(edge.head)?);
            edges.push(there.get_mut(&ends).and_then(Vec::pop).ok_or(Refusal::NotReverseSymmetric)?);
        }
        if from.edges().len() != onto.edges().len() {
            return Err(Refusal::NotReverseSymmetric);
        }
        for send in &mut self.sends {
            send.edge = *edges.get(send.edge as usize).ok_or(Refusal::NotReverseSymmetric)?;
            send.shard = vertex(send.shard)?;
        }
        self.sends.sort_unstable();
        Ok(self)
    }

    /// The same with a multiple of its units per shard.
    ///
    /// # Errors
    /// `InvalidChunking` beyond the limit of units, or where `units` is no multiple.
    pub fn rescaled(mut self, units: u32) -> Result<Schedule, Refusal> {
        if units > MAX_UNITS || self.units == 0 || !units.is_multiple_of(self.units) {
            let reason = format!("{units} units per shard; a multiple of {} up to {MAX_UNITS} is needed", self.units);
            return Err(Refusal::InvalidChunking { reason });
        }
        let factor = units / self.units;
        for Send { lo, hi, .. } in &mut self.sends {
            (*lo, *hi) = (*lo * factor, *hi * factor);
        }
        self.units = units;
        Ok(self)
    }

    /// An all-reduce: this reduce-scatter, then that all-gather, in common units.
    ///
    /// # Errors
    /// `InvalidChunking` beyond the limit of units; `INTERNAL_INVARIANT` if the two are something else.
    pub fn then(self, gather: Schedule) -> Result<Schedule, Refusal> {
        if (self.shape, gather.shape) != (Shape::ReduceScatter, Shape::AllGather) {
            let reason = format!("an all-reduce of {:?} and {:?}", self.shape, gather.shape);
            return Err(Refusal::Internal { reason });
        }
        let units = common_units(self.units, gather.units)?;
        let (scatter, gather) = (self.rescaled(units)?, gather.rescaled(units)?);
        let reduce_steps = scatter.steps;
        let later = gather.sends.into_iter().map(|send| Send { step: send.step + reduce_steps, ..send });
        let sends = scatter.sends.into_iter().chain(later).collect();
        Ok(Schedule { shape: Shape::AllReduce { reduce_steps }, units, steps: reduce_steps + gather.steps, sends })
    }
}

/// The fewest units per shard that both are multiples of.
pub fn common_units(one: u32, other: u32) -> Result<u32, Refusal> {
    let units = u64::from(one).lcm(&other.into());
    u32::try_from(units).ok().filter(|units| *units <= MAX_UNITS).ok_or_else(|| {
        let reason = format!("{units} units per shard; a multiple of {one} up to {MAX_UNITS} is needed");
        Refusal::InvalidChunking { reason }
    })
}
