//! The best candidates so far: for more steps, less load.

use super::group::{Element, Group};

/// A candidate that none known is better than.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub t_l: u32,
    /// Σλ of the all-gather, in parts of a shard.
    pub loads: u64,
    /// Σλ of the reduce-scatter; it differs where the graph is not like its transpose.
    pub reduce: u64,
    pub group: Group,
    pub generators: Vec<Element>,
}

/// Ascending in steps, descending in load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frontier(Vec<Point>);

impl Frontier {
    pub(super) fn points(&self) -> &[Point] {
        &self.0
    }
    /// Would such a candidate be kept, if its reduce-scatter were free? Asked before that cost is known.
    pub(super) fn wants(&self, t_l: u32, loads: u64) -> bool {
        self.0.iter().all(|known| known.t_l > t_l || (known.loads, known.reduce) > (loads, 0))
    }
    /// Keeps the point unless one with no more steps has no more load; of equals the first stays.
    pub(super) fn add(&mut self, point: Point) {
        let cost = |point: &Point| (point.loads, point.reduce);
        if self.0.iter().any(|known| known.t_l <= point.t_l && cost(known) <= cost(&point)) {
            return;
        }
        self.0.retain(|known| known.t_l < point.t_l || cost(known) < cost(&point));
        let place = self.0.partition_point(|known| known.t_l < point.t_l);
        self.0.insert(place, point);
    }
}
