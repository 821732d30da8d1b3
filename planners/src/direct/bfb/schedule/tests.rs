//! Schedules against the replay, which shares nothing with the planner, and against the cost they promise.

use proptest::prelude::*;

use super::*;
use crate::direct::bfb::{cost, samples::*};
use crate::direct::replay::{Fault, replay};

fn units(units: u32) -> Options<'static> {
    Options { units: Some(units), times: None }
}

fn exact(text: &str) -> Rational {
    Rational::parse(text).unwrap()
}

/// Replayed, and measured as promised.
fn sound(graph: &Graph, planned: &Planned) {
    assert_eq!(replay(graph, &planned.schedule).as_ref(), Ok(&planned.cost));
}

#[test]
fn chunked_vectors() {
    let star = graph(5, (1..5).flat_map(|leaf| [(0, leaf), (leaf, 0)]));
    let cases = [
        (bipartite(4), vec![(1, "2"), (2, "2"), (4, "7/4")]),
        (circulant(12, &[2, 3]), vec![(1, "3"), (2, "3"), (4, "11/4")]),
        (hypercube(3), vec![(1, "3"), (3, "7/3")]),
        (star, vec![(1, "4"), (2, "4"), (3, "4")]),
    ];
    for (graph, sums) in cases {
        for (parts, sum) in sums {
            let planned = all_gather(&graph, &units(parts), &Run::quiet(2)).unwrap();
            assert_eq!(planned.cost.load_sum, exact(sum));
            sound(&graph, &planned);
        }
    }
}

#[test]
fn where_a_graph_is_not_its_transpose_the_two_halves_differ() {
    let options = Options::default();
    let t_b = |planned: Planned| planned.cost.t_b.unwrap();
    let pi = kautz(2, 9);
    assert_eq!(t_b(all_gather(&pi, &options, &Run::quiet(2)).unwrap()), exact("14/9"));
    assert_eq!(t_b(reduce_scatter(&pi, &options, &Run::quiet(2)).unwrap()), exact("10/9"));
    let both = all_reduce(&pi, &options, &Run::quiet(2)).unwrap();
    sound(&pi, &both);
    assert_eq!(t_b(both), exact("24/9"));
}

#[test]
fn an_all_reduce_on_every_kind_of_graph_is_sound() {
    let graphs = [
        torus(&[3, 4]),
        torus(&[2, 3, 2]),
        hypercube(4),
        kautz(2, 12),
        kautz(4, 11),
        line(&bipartite(2)),
        copies(&directed(4, &[1]), 2),
        directed(4, &[1, 1]),
        bipartite(70),
    ];
    for graph in graphs {
        sound(&graph, &all_reduce(&graph, &Options::default(), &Run::quiet(2)).unwrap());
    }
}

#[test]
fn a_bidirectional_graph_turns_its_own_all_gather_into_a_reduce_scatter() {
    let graph = torus(&[4, 3]);
    let gather = all_gather(&graph, &Options::default(), &Run::quiet(2)).unwrap();
    let same: Vec<u32> = (0..graph.n()).collect();
    let turned = gather.schedule.clone().transposed().mapped(&graph.transposed(), &graph, &same).unwrap();
    assert_eq!(replay(&graph, &turned).unwrap().load_sum, gather.cost.load_sum);
    let ring = directed(3, &[1]);
    let gather = all_gather(&ring, &Options::default(), &Run::quiet(2)).unwrap().schedule.transposed();
    // A one-way ring is its own transpose too, but not by the identity.
    assert_eq!(gather.clone().mapped(&ring.transposed(), &ring, &[0, 1, 2]), Err(Refusal::NotReverseSymmetric));
    let turned = gather.mapped(&ring.transposed(), &ring, &[0, 2, 1]).unwrap();
    assert!(replay(&ring, &turned).is_ok());
}

#[test]
fn units_that_cannot_be_are_refused() {
    let graph = directed(3, &[1]);
    for parts in [0, MAX_UNITS + 1] {
        assert!(matches!(all_gather(&graph, &units(parts), &Run::quiet(2)), Err(Refusal::InvalidChunking { .. })));
    }
    let gather = all_gather(&graph, &units(2), &Run::quiet(2)).unwrap().schedule;
    assert!(matches!(gather.clone().rescaled(3), Err(Refusal::InvalidChunking { .. })));
    assert!(matches!(gather.clone().then(gather), Err(Refusal::Internal { .. })));
}

#[test]
fn a_schedule_beyond_every_plan_is_refused_before_it_is_made() {
    let refusal = all_gather(&directed(5_000, &[1]), &Options::default(), &Run::quiet(2)).unwrap_err();
    assert!(matches!(refusal, Refusal::ScheduleTooLarge { sends: 24_995_000, .. }), "{refusal}");
}

#[test]
fn one_vertex_needs_no_sends() {
    let planned = all_reduce(&graph(1, [(0, 0)]), &Options::default(), &Run::quiet(1)).unwrap();
    assert!(planned.schedule.sends.is_empty() && planned.cost.t_l() == 0);
}

#[test]
fn the_replay_sees_what_is_wrong() {
    let graph = torus(&[3, 3]);
    let gather = all_gather(&graph, &Options::default(), &Run::quiet(2)).unwrap().schedule;
    let mut less = gather.clone();
    less.sends.pop();
    assert!(matches!(replay(&graph, &less), Err(Fault::Missing { .. })));
    let mut early = gather.clone();
    early.sends.iter_mut().for_each(|send| send.step = 1);
    assert!(matches!(replay(&graph, &early), Err(Fault::NotThere { .. })));
    let mut astray = gather.clone();
    astray.sends[0].edge = 1_000;
    assert!(matches!(replay(&graph, &astray), Err(Fault::BadSend { .. })));
    let scatter = reduce_scatter(&graph, &Options::default(), &Run::quiet(2)).unwrap().schedule;
    let mut lost = scatter.clone();
    lost.sends.remove(0);
    assert!(matches!(replay(&graph, &lost), Err(Fault::Missing { .. })));
    let mut again = scatter.clone();
    again.sends.push(Send { step: 2, ..scatter.sends[0] });
    assert!(matches!(replay(&graph, &again), Err(Fault::NotThere { .. })));
    // An all-gather taken for a reduce-scatter: shards spread instead of coming together.
    let other = Schedule { shape: Shape::ReduceScatter, ..gather };
    assert!(replay(&graph, &other).is_err());
}

proptest! {
    /// P1, P9: sound, with loads rounded up exactly, the same with any number of threads.
    #[test]
    fn whole_units_cost_what_rounding_up_says((n, pairs) in multigraphs(), parts in 1..13_u32) {
        let graph = graph(n, pairs);
        let best = cost(&graph, &Run::quiet(1)).unwrap();
        let planned = all_gather(&graph, &units(parts), &Run::quiet(2)).unwrap();
        sound(&graph, &planned);
        let unit = Rational::from(u64::from(parts));
        let up = |load: &Rational| {
            let (p, q) = (load * &unit).parts().unwrap();
            Rational::new(i128::from((p as u64).div_ceil(q as u64)), i128::from(parts)).unwrap()
        };
        prop_assert_eq!(&planned.cost.loads, &best.loads.iter().map(up).collect::<Vec<_>>());
        let finer = all_gather(&graph, &units(parts * 2), &Run::quiet(2)).unwrap();
        prop_assert!(finer.cost.load_sum <= planned.cost.load_sum);
        prop_assert_eq!(all_gather(&graph, &units(parts), &Run::quiet(1)).unwrap(), planned);
    }

    /// P1, P4: backwards it is a reduce-scatter with the loads in reverse, and both together an all-reduce.
    #[test]
    fn backwards_it_is_a_reduce_scatter((n, pairs) in multigraphs()) {
        let graph = graph(n, pairs);
        let options = Options::default();
        let gather = all_gather(&graph, &options, &Run::quiet(2)).unwrap();
        prop_assert_eq!(&gather.cost, &cost(&graph, &Run::quiet(1)).unwrap());
        let back = gather.schedule.clone().transposed();
        let mut loads = gather.cost.loads;
        loads.reverse();
        prop_assert_eq!(replay(&graph.transposed(), &back).unwrap().loads, loads);
        prop_assert_eq!(back.transposed(), gather.schedule);
        sound(&graph, &reduce_scatter(&graph, &options, &Run::quiet(2)).unwrap());
        sound(&graph, &all_reduce(&graph, &options, &Run::quiet(2)).unwrap());
    }

    /// The bound of rounding a fractional solution (Theorem 20) holds for the exact one all the more.
    #[test]
    fn rounding_costs_little(n in 5..40_u32, parts in 1..6_u32) {
        let graph = kautz(3, n);
        let (best, planned) = (cost(&graph, &Run::quiet(1)).unwrap(), all_gather(&graph, &units(parts), &Run::quiet(2)).unwrap());
        let steps = planned.cost.t_l();
        let slack = Rational::new(3 * (3_i128.pow(steps) - 1), 2 * i128::from(parts) * i128::from(n)).unwrap();
        prop_assert!(planned.cost.t_b.unwrap() <= &best.t_b.unwrap() + &slack);
    }
}
