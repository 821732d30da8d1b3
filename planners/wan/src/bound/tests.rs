use super::*;
use crate::instance::{Flow, Link};

/// Two collectives of two flows each over one link of 2 MB/s, and another link that nobody uses.
fn instance() -> Instance {
    let link = |from, to| Link { from, to, capacity: 2.0 };
    let flow = |collective, order, size| Flow {
        collective,
        group: 0,
        order,
        from: 0,
        to: 1,
        size,
        path: vec![0],
        release: 0.0,
    };
    let flows = vec![flow(0, 0, 2.0), flow(0, 1, 2.0), flow(1, 0, 8.0)];
    Instance::new("two", 2, vec![link(0, 1), link(1, 0)], flows, None).expect("an instance")
}

#[test]
fn each_by_itself_is_the_longest_chain_or_the_fullest_link() {
    let found = of_each(&instance());
    // 2 s and 4 s, of which a chain says as much as the link.
    assert_eq!(found, Bound { value: 3.0, rows: Vec::new() });
}

#[test]
fn a_row_of_several_collectives_says_that_they_wait_for_each_other() {
    // p = 2 and 4: 2·T₀ + 4·T₁ ≥ ½(36 + 20) = 28; the rest of T₀ counts for its chain of 2 s.
    let rows = |price| vec![Row { link: 0, collectives: vec![0, 1], price }];
    let found = Bound::of_rows(&instance(), rows(1.0 / 8.0));
    assert!((found.value - (28.0 / 8.0 + 0.25 * 2.0)).abs() < 1e-12, "{found:?}");
    // Twice the price is lowered to that.
    assert_eq!(Bound::of_rows(&instance(), rows(1.0 / 4.0)), found);
}

#[test]
fn what_is_no_row_of_the_instance_proves_nothing() {
    let none = Bound::of_rows(&instance(), Vec::new());
    for (link, collectives, price) in [
        (7, vec![0], 0.1),
        (1, vec![0], 0.1),
        (0, vec![9], 0.1),
        (0, vec![0], f64::NAN),
        (0, vec![0], -1.0),
        (0, vec![], 1.0),
    ] {
        let found = Bound::of_rows(&instance(), vec![Row { link, collectives, price }]);
        assert_eq!(found.value, none.value, "{found:?}");
    }
}
