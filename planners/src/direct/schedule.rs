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
    /// The first unit, counted from 0 in the shard.
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
    /// The collective that it does; it says which sends add up.
    pub shape: Shape,
    /// Units per shard, P.
    pub units: u32,
    /// How many steps there are; sends count them from 1.
    pub steps: u32,
    /// By step, edge, shard and first unit, ascending.
    pub sends: Vec<Send>,
}

/// Sends in order of a number below `numbers`, and of `then` where that is the same. Millions of sends have few of each
/// number: putting each in its place takes two passes over them, and what is left to sort is short.
pub fn in_order<T: Ord>(
    sends: &[Send],
    numbers: usize,
    number: impl Fn(&Send) -> usize,
    then: impl Fn(&Send) -> T,
) -> Vec<Send> {
    let mut sorted = sends.to_vec();
    if numbers / 4 > sends.len() {
        sorted.sort_unstable_by_key(|send| (number(send), then(send)));
        return sorted;
    }
    let mut first = vec![0_u32; numbers + 1];
    sends.iter().for_each(|send| first[number(send) + 1] += 1);
    (0..numbers).for_each(|number| first[number + 1] += first[number]);
    let mut next = first.clone();
    for send in sends {
        let place = &mut next[number(send)];
        sorted[*place as usize] = *send;
        *place += 1;
    }
    for ends in first.windows(2) {
        sorted[ends[0] as usize..ends[1] as usize].sort_unstable_by_key(&then);
    }
    sorted
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
    /// T_L: how many steps there are, each with one latency.
    pub fn t_l(&self) -> u32 {
        self.loads.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_are_put_in_order_like_any_sort_does() {
        let mut state = 1_u32;
        let mut below = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % most
        };
        let sends: Vec<Send> = (0..500)
            .map(|_| Send { step: 1 + below(4), edge: below(9), shard: below(5), lo: below(3), hi: 3 + below(2) })
            .collect();
        let mut wanted = sends.clone();
        wanted.sort_unstable();
        let place = |send: &Send| (send.step as usize - 1) * 9 + send.edge as usize;
        assert_eq!(in_order(&sends, 36, place, |send| (send.shard, send.lo, send.hi)), wanted);
        assert_eq!(in_order(&sends, 36_000, place, |send| (send.shard, send.lo, send.hi)), wanted);
        assert_eq!(in_order(&[], 36, place, |send| send.lo), []);
    }

    #[test]
    fn the_cost_of_a_complete_graph_is_the_bandwidth_bound() {
        let cost = Cost::new(vec![Rational::ONE], 5, Some(4));
        assert_eq!(cost.t_b, Rational::new(4, 5));
        assert_eq!((cost.t_l(), cost.load_sum), (1, Rational::ONE));
    }
}
