//! A schedule: which part of whose shard crosses which link in which step, and what that costs.

use sluice_formats::quantity::Rational;

/// The units `lo..hi` of a shard over an edge in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Send {
    /// The step, counted from 1.
    pub step: u32,
    /// Id of the edge.
    pub edge: u32,
    /// Owner of the shard.
    pub shard: u32,
    /// First unit.
    pub lo: u32,
    /// The unit after the last.
    pub hi: u32,
}

/// Which collective a schedule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Everybody ends with every shard.
    AllGather,
    /// Everybody ends with the sum of its own shard; a send moves the sender's partial sum.
    ReduceScatter,
    /// A reduce-scatter in the first `reduce_steps` steps, then an all-gather.
    AllReduce {
        /// Steps whose receivers add.
        reduce_steps: u32,
    },
}

/// Sends in steps; each step is over before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What it does.
    pub shape: Shape,
    /// Units per shard, P.
    pub units: u32,
    /// Number of steps.
    pub steps: u32,
    /// The sends, ascending.
    pub sends: Vec<Send>,
}

/// What a schedule costs: `T_L` is the number of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The largest load of a link in each step, in shards.
    pub loads: Vec<Rational>,
    /// Their sum Σλ: the time is this times shard size over link bandwidth, plus the steps' latencies.
    pub load_sum: Rational,
    /// τ = (d/N)·Σλ, in units of M/B; `None` of a graph that is not regular.
    pub t_b: Option<Rational>,
}

impl Cost {
    /// The cost of steps with these largest loads on a graph of `n` vertices of degree `d`.
    pub fn new(loads: Vec<Rational>, n: u32, d: Option<u32>) -> Cost {
        let load_sum: Rational = loads.iter().sum();
        let t_b = d.and_then(|d| Rational::new(i128::from(d), i128::from(n))).map(|share| &share * &load_sum);
        Cost { loads, load_sum, t_b }
    }
    /// Number of steps.
    pub fn t_l(&self) -> u32 {
        self.loads.len() as u32
    }
    /// Is `t_b` (N−1)/N, which no schedule beats?
    pub fn is_bandwidth_optimal(&self, n: u32) -> bool {
        Rational::new(i128::from(n) - 1, i128::from(n)).is_some_and(|least| self.t_b.as_ref() == Some(&least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_complete_graph_is_the_bandwidth_bound() {
        let cost = Cost::new(vec![Rational::ONE], 5, Some(4));
        assert_eq!(cost.t_b, Rational::new(4, 5));
        assert!(cost.is_bandwidth_optimal(5));
        assert_eq!((cost.t_l(), cost.load_sum), (1, Rational::ONE));
    }
}
