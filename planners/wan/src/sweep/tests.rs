use super::page::{About, html};
use super::*;

fn grid(graph: &Graph) -> Grid<'_> {
    Grid {
        graph,
        collectives: vec![1, 3],
        seeds: vec![1, 2],
        participants: 3,
        sizes: Sizes::IidFlow,
        scale: 1.0,
        methods: vec![Method::EqualAlloc, Method::Prio, Method::RateAlloc],
        options: Options::default(),
        limit: None,
    }
}

#[test]
fn the_result_is_the_same_on_any_number_of_threads() {
    let graph = Graph::ring(5).expect("a ring");
    let one = super::run(&grid(&graph), None, &Run::quiet(1)).expect("swept");
    assert_eq!(super::run(&grid(&graph), None, &Run::quiet(3)), Ok(one.clone()));
    assert_eq!(
        one.cells.iter().map(|cell| (cell.collectives, cell.seed)).collect::<Vec<_>>(),
        [(1, 1), (1, 2), (3, 1), (3, 2)]
    );
    // There is no solver here.
    assert_eq!(one.spread(2, 1), None);
    let (equal, prio) = (one.spread(0, 3).expect("a mean"), one.spread(1, 3).expect("a mean"));
    let bound = one.bounds(3).expect("a bound");
    assert!(bound.mean <= prio.mean && prio.mean <= equal.mean && equal.deviation > 0.0 && equal.count == 2);
    // The instances of two scales are the same but for their sizes.
    let twice = super::run(&Grid { scale: 2.0, ..grid(&graph) }, None, &Run::quiet(2)).expect("swept");
    let double = twice.spread(0, 3).expect("a mean").mean;
    assert!((double / equal.mean - 2.0).abs() < 1e-9);
}

#[test]
fn spreads_are_of_samples() {
    assert_eq!(Spread::of(&[]), None);
    assert_eq!(Spread::of(&[3.0]), Some(Spread { mean: 3.0, deviation: 0.0, count: 1 }));
    assert_eq!(Spread::of(&[1.0, 3.0]), Some(Spread { mean: 2.0, deviation: 2.0_f64.sqrt(), count: 2 }));
}

#[test]
fn a_page_says_everything_and_loads_nothing() {
    let graph = Graph::ring(5).expect("a ring");
    let sweep = super::run(&grid(&graph), None, &Run::quiet(1)).expect("swept");
    let facts = [("network", "<ring>".to_owned())];
    let page = html(&sweep, &About { title: "a & b", facts: &facts, data: "{\"x\": \"</script>\"}" });
    for part in ["<title>a &amp; b</title>", "&lt;ring&gt;", "equal_alloc", "lower bound", "<th>3</th>", "± "] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf") && page.matches("</script>").count() == 1, "{page}");
    // A line for each method that has times, and one for the bound.
    assert_eq!(page.matches("<g><title>").count(), 3);
    assert_eq!(page.matches("<circle").count(), 3 * 2);
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let graph = Graph::ring(5).expect("a ring");
    let refused = |grid: Grid<'_>| super::run(&grid, None, &Run::quiet(1)).expect_err("refused").code();
    assert_eq!(refused(Grid { participants: 6, ..grid(&graph) }), "BadParticipants");
    assert_eq!(refused(Grid { scale: 0.0, ..grid(&graph) }), "BadSize");
    assert_eq!(refused(Grid { seeds: (0..400_000).collect(), ..grid(&graph) }), "TooLarge");
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let off = Run { cancel: &cancel, ..Run::quiet(1) };
    assert_eq!(super::run(&grid(&graph), None, &off), Err(Refusal::Stopped));
}
