//! How many bytes of a collective leave one rank, by the algorithm's own arithmetic; payload, without headers.

use crate::names::{Algo, Func};

/// Bytes that leave a rank of `ranks`, all of whose neighbours are on other hosts. `bytes`: per rank, as a descriptor
/// counts. For a tree it is the mean over the ranks: which of them is a leaf only the network operations show.
pub fn per_rank(func: Func, bytes: u64, ranks: u32, is_root: bool) -> u64 {
    if ranks < 2 {
        return 0;
    }
    // Nearly always: dividing 128 bits costs more than all the rest.
    if func == Func::AllReduce
        && let Some(twice) = bytes.checked_mul(2 * u64::from(ranks - 1))
    {
        return twice / u64::from(ranks);
    }
    let (bytes, n) = (u128::from(bytes), u128::from(ranks));
    let wire = match func {
        Func::AllReduce => bytes * 2 * (n - 1) / n,
        Func::AllGather | Func::ReduceScatter => bytes * (n - 1),
        // What is reduced ends at the root.
        Func::Reduce if is_root => 0,
        Func::Broadcast | Func::Reduce | Func::Other => bytes,
    };
    u64::try_from(wire).unwrap_or(u64::MAX)
}

/// What all channels to one neighbour each would carry together; `whole` is [`per_rank`]. Around a ring that is all a rank
/// sends; up and down a tree the whole tensor goes to each neighbour.
pub fn per_neighbour(func: Func, algo: Algo, bytes: u64, whole: u64) -> u64 {
    match (func, algo) {
        (Func::AllReduce, Algo::Tree) => bytes,
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A ring carried out chunk by chunk: who sends how much.
    fn ring(func: Func, bytes: u64, n: usize) -> Vec<u64> {
        let mut sent = vec![0; n];
        let chunk = bytes / n as u64;
        let steps = |sent: &mut Vec<u64>, count: usize, size: u64| {
            for _ in 0..count {
                sent.iter_mut().for_each(|bytes| *bytes += size);
            }
        };
        match func {
            Func::AllReduce => {
                steps(&mut sent, n - 1, chunk);
                steps(&mut sent, n - 1, chunk);
            }
            // Every rank passes on what each of the others, itself included, has: all but the last hop.
            Func::AllGather | Func::ReduceScatter => steps(&mut sent, n - 1, bytes),
            // Root 0: broadcast stops before it, reduction ends in it.
            Func::Broadcast => (0..n - 1).for_each(|rank| sent[rank] += bytes),
            Func::Reduce | Func::Other => (1..n).for_each(|rank| sent[rank] += bytes),
        }
        sent
    }

    proptest! {
        #[test]
        fn the_formulas_are_what_a_ring_sends(n in 2_usize..40, chunk in 0_u64..1 << 30) {
            let bytes = chunk * n as u64;
            for func in [Func::AllReduce, Func::AllGather, Func::ReduceScatter, Func::Reduce] {
                for (rank, sent) in ring(func, bytes, n).into_iter().enumerate() {
                    prop_assert_eq!(per_rank(func, bytes, n as u32, rank == 0), sent, "{:?} {}", func, rank);
                }
            }
            // The last rank of a broadcast sends nothing; which it is, only the ring's order tells.
            for sent in ring(Func::Broadcast, bytes, n).into_iter().take(n - 1) {
                prop_assert_eq!(per_rank(Func::Broadcast, bytes, n as u32, false), sent);
            }
        }

        #[test]
        fn nothing_overflows(bytes in any::<u64>(), ranks in any::<u32>()) {
            for func in [Func::AllReduce, Func::AllGather, Func::Broadcast, Func::Other] {
                let whole = per_rank(func, bytes, ranks, false);
                for algo in [Algo::Ring, Algo::Tree, Algo::Other] {
                    prop_assert!(per_neighbour(func, algo, bytes, whole) <= whole.max(bytes));
                }
            }
        }
    }

    #[test]
    fn the_sends_of_a_tree_are_the_tensor_up_and_down_every_edge() {
        // Seven ranks, one tree: six edges, each up and down; over all ranks as much as the ring's mean.
        let bytes = 7_000;
        let whole = per_rank(Func::AllReduce, bytes, 7, false);
        let per_edge = per_neighbour(Func::AllReduce, Algo::Tree, bytes, whole);
        assert_eq!(per_edge * 6 * 2, whole * 7);
    }
}
