//! Chunks that may be cut: every byte gets there once, and cutting never takes longer than whole chunks.

use super::*;
use proptest::prelude::*;
use sluice_plan::plan::{Content, Status};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The checker follows every byte; what is left to compare is the time.
    #[test]
    fn pieces_are_no_slower_than_whole_chunks(
        extra in proptest::collection::btree_set((0_usize..5, 0_usize..5), 0..6),
        rates in proptest::collection::vec(1_u64..5, 11),
        bytes in 1_000_u64..100_000,
    ) {
        let mut pairs: Vec<(usize, usize)> = (0..5).map(|node| (node, (node + 1) % 5)).collect();
        pairs.extend(extra.into_iter().filter(|(a, b)| a != b && (a + 1) % 5 != *b));
        let links: Vec<serde_json::Value> = pairs.iter().zip(&rates).map(|((a, b), rate)| {
            serde_json::json!({"GBps": 5 * rate, "alpha_us": 0.3, "both_ways": false, "pairs": [[a, b]]})
        }).collect();
        let topology = small(5, 0, &links.into(), false);
        let whole = Options { volume: Volume::Chunk(Rational::from(bytes)), ..options(1, EpochLength::Slow) };
        let cut = Options { divisible: true, ..whole.clone() };
        let whole = planned(&topology, Collective::AllToAll, &whole).figures;
        let cut = planned(&topology, Collective::AllToAll, &cut);
        prop_assert!(cut.figures.epochs <= whole.epochs, "{} and {}", cut.figures.epochs, whole.epochs);
        prop_assert_eq!(cut.figures.status, Status::Optimal);
        let Content::Sends(sends) = &cut.plan.body.content else { panic!("sends") };
        prop_assert!(sends.sends.iter().all(|send| send.entry.bytes.is_some_and(|n| n > 0)));
    }
}

#[test]
fn a_half_of_a_chunk_by_each_of_two_ways() {
    // From 0 to 3 by 1 and by 2: two epochs for one way of half the chunks each.
    let topology = unit(4, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)]);
    let file = serde_json::json!({"sluice_demands": 1, "tenants": [{"name": "a", "triples": [["0", 0, "3"], ["0", 1, "3"], ["0", 2, "3"]]}]});
    let of = |divisible| {
        let options =
            Options { wanted: Some(wanted(&file).expect("valid")), divisible, ..options(1, EpochLength::Slow) };
        planned(&topology, Collective::Custom, &options).figures
    };
    // Three chunks over two ways of two hops: whole ones and pieces need the same three epochs.
    assert_eq!((of(false).epochs, of(true).epochs), (3, 3));
    let half =
        Options { divisible: true, ..options(1, EpochLength::Fixed(Rational::new(1, 2_000_000_u64).expect("a time"))) };
    let half = Options { wanted: Some(wanted(&file).expect("valid")), ..half };
    // Epochs half as long: 1.5 chunks a way, half a chunk in each, and one for the second hop.
    assert_eq!(planned(&topology, Collective::Custom, &half).figures.epochs, 4);
}
