//! Rounds by pages and by bursts, and pages that lie.

use super::*;

const MB: u64 = 1_000_000;

fn at(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn sent(delivered: u64, queued: u64) -> Sent {
    Sent { delivered: Bytes(delivered), queued: Bytes(queued) }
}

fn view(state: State, iteration: u64, base: u64, enqueued: u64, wire: u64) -> PageView {
    let mut view = PageView { state, enq_bytes: enqueued, enq_wire_bytes: wire, ..PageView::default() };
    view.iteration.count = iteration;
    view.iteration.base_bytes = base;
    view
}

#[test]
fn a_page_round_begins_grows_and_ends() {
    let mut rounds = Rounds::default();
    assert_eq!(rounds.page(at(0), &view(State::Compute, 1, 0, 0, 0), sent(0, 0), Bytes::ZERO), Step::Same);
    assert_eq!(
        rounds.page(at(5), &view(State::Enqueued, 1, 0, 10 * MB, 15 * MB), sent(0, 0), Bytes::ZERO),
        Step::Began(Bytes(15 * MB))
    );
    assert_eq!(
        rounds.page(at(10), &view(State::OnWire, 1, 0, 20 * MB, 30 * MB), sent(MB, MB), Bytes::ZERO),
        Step::Grew(Bytes(30 * MB))
    );
    assert_eq!(
        rounds.page(at(15), &view(State::OnWire, 1, 0, 20 * MB, 30 * MB), sent(2 * MB, MB), Bytes::ZERO),
        Step::Same
    );
    assert_eq!(
        rounds.page(at(90), &view(State::Compute, 2, 20 * MB, 20 * MB, 30 * MB), sent(30 * MB, 0), Bytes::ZERO),
        Step::Ended
    );
    assert_eq!(
        rounds.page(at(95), &view(State::Compute, 2, 20 * MB, 20 * MB, 30 * MB), sent(0, 0), Bytes::ZERO),
        Step::Same
    );
    assert_eq!(
        rounds.page(at(99), &view(State::OnWire, 2, 20 * MB, 40 * MB, 60 * MB), sent(0, 0), Bytes::ZERO),
        Step::Began(Bytes(30 * MB))
    );
    assert_eq!(rounds.period(), at(94));
}

#[test]
fn a_new_iteration_with_bytes_is_a_new_round_even_if_the_pause_was_missed() {
    let mut rounds = Rounds::default();
    rounds.page(at(0), &view(State::Compute, 1, 0, 0, 0), sent(0, 0), Bytes::ZERO);
    rounds.page(at(1), &view(State::OnWire, 1, 0, 20 * MB, 30 * MB), sent(0, 0), Bytes::ZERO);
    let step = rounds.page(at(70), &view(State::OnWire, 2, 20 * MB, 30 * MB, 45 * MB), sent(30 * MB, 0), Bytes::ZERO);
    assert_eq!(step, Step::Began(Bytes(15 * MB)));
    assert_eq!(rounds.ended, 1);
}

#[test]
fn a_page_without_iterations_still_has_rounds() {
    let mut rounds = Rounds::default();
    rounds.page(at(0), &view(State::Compute, 0, 0, 0, 0), sent(0, 0), Bytes::ZERO);
    for n in 1..5 {
        let bytes = n * 10 * MB;
        assert_eq!(
            rounds.page(at(n * 100), &view(State::OnWire, 0, 0, bytes, bytes), sent(0, 0), Bytes::ZERO),
            Step::Began(Bytes(10 * MB))
        );
        assert_eq!(
            rounds.page(at(n * 100 + 50), &view(State::Compute, 0, 0, bytes, bytes), sent(10 * MB, 0), Bytes::ZERO),
            Step::Ended
        );
    }
}

#[test]
fn a_claim_is_held_against_the_kernel_and_a_liar_is_ignored() {
    let mut rounds = Rounds::default();
    rounds.page(at(0), &view(State::Compute, 0, 0, 0, 0), sent(0, 0), Bytes::ZERO);
    let mut wire = 0;
    for n in 1..=5_u64 {
        let before = wire;
        wire += if n <= 2 { MB } else { 1000 * MB };
        let step = rounds.page(at(n * 100), &view(State::OnWire, n, before, wire, wire), sent(0, 0), Bytes::ZERO);
        let Step::Began(demand) = step else { panic!("round {n}: {step:?}") };
        if n > 2 {
            assert!(demand.0 <= 2 * MB + SLACK.0, "{demand} in round {n}");
        }
        rounds.page(at(n * 100 + 50), &view(State::Compute, n, before, wire, wire), sent(MB, 0), Bytes::ZERO);
    }
    assert!(rounds.ignored(at(600)) && !rounds.ignored(at(61_000)));
}

#[test]
fn a_page_whose_sockets_have_no_rows_is_believed_and_contradicts_nobody() {
    let mut rounds = Rounds { unseen: true, ..Rounds::default() };
    for n in 1..=9_u64 {
        let at = |ms| at(n * 20_000 + ms);
        let page = |state| view(state, n, (n - 1) * 50 * MB, n * 50 * MB, n * 50 * MB);
        assert!(
            matches!(rounds.page(at(0), &page(State::OnWire), sent(0, 0), Bytes::ZERO), Step::Began(_)),
            "round {n}"
        );
        // It is not given up for moving no byte that anybody could see.
        assert_eq!(rounds.page(at(9_000), &page(State::OnWire), sent(0, 0), Bytes::ZERO), Step::Same, "round {n}");
        assert_eq!(rounds.page(at(9_500), &page(State::Compute), sent(0, 0), Bytes::ZERO), Step::Ended, "round {n}");
    }
    assert!(!rounds.ignored(at(200_000)));
}

#[test]
fn without_a_page_a_burst_after_a_pause_is_a_round() {
    let mut rounds = Rounds::default();
    assert_eq!(rounds.burst(at(0), sent(0, 0), Bytes(0)), Step::Same);
    assert_eq!(rounds.burst(at(5), sent(0, MB), Bytes(0)), Step::Began(Bytes(MB)));
    assert_eq!(rounds.burst(at(10), sent(MB, 2 * MB), Bytes(MB)), Step::Grew(Bytes(3 * MB)));
    assert_eq!(rounds.burst(at(15), sent(3 * MB, 0), Bytes(2 * MB)), Step::Same);
    assert_eq!(rounds.burst(at(50), sent(3 * MB, 0), Bytes(0)), Step::Ended);
    // What the last round had is the estimate of the next.
    assert_eq!(rounds.burst(at(200), sent(0, MB), Bytes(0)), Step::Began(Bytes(3 * MB)));
}

#[test]
fn any_page_is_survived() {
    let mut rounds = Rounds::default();
    let mut next = crate::testing::random(88_172_645_463_325_252);
    for i in 0..20_000 {
        let big = |n: u64| if n & 1 == 0 { n } else { n % 100 };
        let mut v = view(State::from_raw(next() % 6), next() % 4, big(next()), big(next()), big(next()));
        v.hint_iter_bytes = big(next());
        rounds.page(at(i), &v, sent(big(next()), big(next())), Bytes(big(next())));
        if i % 3 == 0 {
            rounds.burst(at(i), sent(big(next()), big(next())), Bytes(big(next())));
        }
    }
}
