//! When a process's communication round begins, how many bytes it has, and when it is over.
//!
//! With a progress page the process says so itself; what it says is a claim, held against the bytes the kernel saw
//! acknowledged ([`Rounds::page`]). Without a page the bytes of an iteration are learned from the counts, and a round is
//! over when they are through, however it pauses; until they are known a burst after a pause is a round, and the bytes of
//! the last rounds are the estimate ([`Rounds::burst`]).

use sluice_progress::{PageView, State};
use sluice_schedule::{Bytes, Nanos};

use super::period::Period;

/// Claims are believed up to this in the first rounds.
const MAX_FIRST_CLAIM: Bytes = Bytes(1 << 40);
/// Rounds after which claims are held against the kernel's counts.
const FREE_ROUNDS: u64 = 2;
/// Slack of the clamp, for control messages and headers.
const SLACK: Bytes = Bytes(64 << 10);
/// A claim this many times what was sent contradicts the kernel.
const CONTRADICTION: u64 = 4;
/// So many contradictions in a row and the page is ignored ...
const MAX_CONTRADICTIONS: u32 = 3;
/// ... for this long.
const IGNORED: Nanos = Nanos::from_millis(60_000);
/// A claimed rest that moves no byte for this long is given up.
const GIVE_UP: Nanos = Nanos::from_millis(5_000);
/// A pause this long ends a round of a process without a page ...
const PAUSE: Nanos = Nanos::from_millis(20);
/// ... or this part of the time between its rounds.
const PAUSE_PART: u64 = 8;
/// Fewer bytes than this are no round.
const MIN_BURST: Bytes = Bytes(32 << 10);
/// Rounds remembered.
const HISTORY: usize = 3;

/// What the kernel says of all flows by which the process sends, since the round began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Acknowledged.
    pub delivered: Bytes,
    /// Written, not acknowledged.
    pub queued: Bytes,
}

/// What follows for the process's round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    #[default]
    Same,
    /// A round of so many bytes began.
    Began(Bytes),
    /// The round has so many bytes by now.
    Grew(Bytes),
    /// The round is over; what is queued is the rest of it.
    Ended,
}

#[derive(Clone, Debug, Default)]
pub struct Rounds {
    pub active: bool,
    pub ended: u64,
    /// Bytes of the round under way, as clamped.
    pub demand: Bytes,
    /// The present or last round ended or ends at a count that was known before: what is queued then is none of it.
    pub exact: bool,
    /// None of its sockets has a row at the moment: nothing that is claimed can be held against what was sent.
    pub unseen: bool,
    /// What the kernel counted alone says of iterations.
    iterations: Period,
    /// All bytes the process sent on its flows.
    total: Bytes,
    /// Where an exact round ends, as a total.
    until: Bytes,
    /// The last length of an iteration that was told.
    learned: Option<Bytes>,
    /// What the round under way is claimed to have.
    claim: Bytes,
    /// Bytes of the last rounds as the kernel saw them.
    history: Vec<Bytes>,
    largest: Bytes,
    iteration: u64,
    base_wire: u64,
    last_wire: u64,
    last_enqueued: u64,
    seen: bool,
    contradictions: u32,
    ignored_until: Nanos,
    began_at: Nanos,
    period: Nanos,
    last_delivered: Bytes,
    moved_at: Nanos,
}

impl Rounds {
    /// Is the page not believed at the moment?
    pub fn ignored(&self, now: Nanos) -> bool {
        now < self.ignored_until
    }

    #[cfg(test)]
    /// Average time from round to round; 0 unknown.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// Goes on by what the page says. `sent` counts from the last [`Step::Began`].
    pub fn page(&mut self, now: Nanos, view: &PageView, sent: Sent) -> Step {
        let wire = view.enq_wire_bytes;
        if !self.seen {
            self.seen = true;
            self.iteration = view.iteration.count;
            let under_way = matches!(view.state, State::Enqueued | State::OnWire);
            self.base_wire = if under_way { wire.saturating_sub(wire_of_iteration(view)) } else { wire };
        }
        if wire < self.last_wire {
            self.base_wire = wire; // Counters never fall; a page that says so starts anew.
        }
        self.watch(now, sent);
        let quiet = matches!(view.state, State::Init | State::Compute | State::Finished);
        if view.iteration.count != self.iteration {
            let fresh = wire_of_iteration(view);
            if self.active && fresh == 0 && !quiet {
                // The iteration was counted before its last bytes left: they still belong to the round.
                self.iteration = view.iteration.count;
            } else {
                let was_active = self.active;
                self.iteration = view.iteration.count;
                self.base_wire = if self.last_enqueued == view.iteration.base_bytes {
                    self.last_wire
                } else {
                    wire.saturating_sub(fresh)
                };
                if was_active {
                    self.end(now, sent);
                    if wire == self.base_wire {
                        self.note(view);
                        return Step::Ended;
                    }
                }
            }
        }
        self.note(view);
        let claim = claimed(view, wire.saturating_sub(self.base_wire));
        if !self.active {
            if claim == Bytes::ZERO || quiet && view.state != State::Init {
                return Step::Same;
            }
            self.begin(now);
            self.claim = claim;
            self.demand = self.clamp(claim, Sent::default().queued.plus(sent.queued));
            return Step::Began(self.demand);
        }
        let given_up = !self.unseen && now.minus(self.moved_at) > GIVE_UP && sent.queued == Bytes::ZERO;
        if quiet && view.state != State::Init || given_up {
            self.base_wire = wire;
            self.end(now, sent);
            return Step::Ended;
        }
        self.claim = self.claim.max(claim);
        let demand = self.clamp(self.claim, sent.queued).max(sent.delivered);
        if demand > self.demand {
            self.demand = demand;
            return Step::Grew(demand);
        }
        Step::Same
    }

    /// Bytes of an iteration, once when they have been known for a while or change by more than headers do.
    pub fn take_learned(&mut self) -> Option<Bytes> {
        let bytes = self.iterations.settled()?;
        let same = |old: Bytes| old.0.abs_diff(bytes.0) <= self.iterations.slack().0;
        if self.learned.is_some_and(same) {
            return None;
        }
        self.learned = Some(bytes);
        Some(bytes)
    }

    /// Goes on by what the kernel counts alone. `moved`: bytes acknowledged since the last call.
    pub fn burst(&mut self, now: Nanos, sent: Sent, moved: Bytes) -> Step {
        let before = self.total;
        self.total = before.plus(moved);
        self.iterations.look(now, self.total, sent.queued);
        if !self.active {
            return self.burst_begins(now, before, sent.queued, moved);
        }
        self.watch(now, sent);
        if self.exact {
            return self.exact_goes_on(now, sent);
        }
        let pause = Nanos(PAUSE.0.max(self.period.0 / PAUSE_PART).min(1_000_000_000));
        if sent.queued == Bytes::ZERO && now.minus(self.moved_at) > pause {
            self.end(now, sent);
            return Step::Ended;
        }
        let seen = sent.delivered.plus(sent.queued);
        if seen > self.demand {
            self.demand = seen;
            return Step::Grew(seen);
        }
        Step::Same
    }

    fn burst_begins(&mut self, now: Nanos, before: Bytes, queued: Bytes, moved: Bytes) -> Step {
        let pending = queued.plus(moved);
        if pending < MIN_BURST {
            return Step::Same;
        }
        match self.iterations.end_after(before) {
            // All of it went between two looks.
            Some(end) if end <= self.total.plus(self.iterations.slack()) && queued == Bytes::ZERO => return Step::Same,
            Some(end) => {
                let end = if end <= self.total { self.iterations.end_after(self.total).unwrap_or(end) } else { end };
                (self.exact, self.until) = (true, end);
                self.claim = Bytes::ZERO;
                self.demand = end.minus(self.total);
            }
            None => {
                let estimate = self.history.iter().copied().max().unwrap_or(Bytes::ZERO);
                self.exact = false;
                self.claim = estimate;
                self.demand = estimate.max(pending);
            }
        }
        self.begin(now);
        Step::Began(self.demand)
    }

    fn exact_goes_on(&mut self, now: Nanos, sent: Sent) -> Step {
        let over = self.total.plus(self.iterations.slack()) >= self.until;
        let given_up = sent.queued == Bytes::ZERO && now.minus(self.moved_at) > GIVE_UP;
        if over || given_up {
            // What is queued belongs to the next iteration.
            self.end(now, Sent { queued: Bytes::ZERO, ..sent });
            return Step::Ended;
        }
        match self.iterations.end_after(self.total) {
            Some(end) => self.until = self.until.min(end),
            // The period turned out wrong: the round ends like any burst.
            None => self.exact = false,
        }
        Step::Same
    }

    fn begin(&mut self, now: Nanos) {
        if self.began_at.0 != 0 {
            let period = now.minus(self.began_at);
            self.period = if self.period.0 == 0 { period } else { Nanos((self.period.0 * 3 + period.0) / 4) };
        }
        self.active = true;
        self.began_at = now;
        self.moved_at = now;
        self.last_delivered = Bytes::ZERO;
    }

    fn watch(&mut self, now: Nanos, sent: Sent) {
        if sent.delivered != self.last_delivered {
            (self.last_delivered, self.moved_at) = (sent.delivered, now);
        }
    }

    fn end(&mut self, now: Nanos, sent: Sent) {
        let bytes = sent.delivered.plus(sent.queued);
        self.active = false;
        self.ended += 1;
        if self.unseen {
            self.claim = Bytes::ZERO;
            return;
        }
        self.largest = self.largest.max(bytes);
        if self.history.len() == HISTORY {
            self.history.remove(0);
        }
        self.history.push(bytes);
        let contradicts = self.claim.0 > bytes.plus(SLACK).0.saturating_mul(CONTRADICTION);
        self.contradictions = if contradicts { self.contradictions + 1 } else { 0 };
        if self.contradictions >= MAX_CONTRADICTIONS {
            self.contradictions = 0;
            self.ignored_until = now.plus(IGNORED);
        }
        self.claim = Bytes::ZERO;
    }

    fn note(&mut self, view: &PageView) {
        self.last_wire = view.enq_wire_bytes;
        self.last_enqueued = view.enq_bytes;
    }

    /// min(claim, 2 × largest round seen + queued) once there were rounds to see.
    fn clamp(&self, claim: Bytes, queued: Bytes) -> Bytes {
        if self.ended < FREE_ROUNDS {
            return claim.min(MAX_FIRST_CLAIM);
        }
        claim.min(Bytes(self.largest.0.saturating_mul(2)).plus(queued).plus(SLACK))
    }
}

/// Wire bytes queued in the page's present iteration, by the page's own ratio of wire to tensor bytes.
fn wire_of_iteration(view: &PageView) -> u64 {
    scale(view.iteration_bytes(), view)
}

/// What the round will have: what is queued, or what the process said an iteration has.
fn claimed(view: &PageView, queued: u64) -> Bytes {
    let hinted = if queued > 0 { scale(view.hint_iter_bytes, view) } else { 0 };
    Bytes(queued.max(hinted))
}

fn scale(tensor_bytes: u64, view: &PageView) -> u64 {
    if view.enq_bytes == 0 {
        return 0;
    }
    let wire = u128::from(tensor_bytes) * u128::from(view.enq_wire_bytes) / u128::from(view.enq_bytes);
    u64::try_from(wire).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(rounds.page(at(0), &view(State::Compute, 1, 0, 0, 0), sent(0, 0)), Step::Same);
        assert_eq!(
            rounds.page(at(5), &view(State::Enqueued, 1, 0, 10 * MB, 15 * MB), sent(0, 0)),
            Step::Began(Bytes(15 * MB))
        );
        assert_eq!(
            rounds.page(at(10), &view(State::OnWire, 1, 0, 20 * MB, 30 * MB), sent(MB, MB)),
            Step::Grew(Bytes(30 * MB))
        );
        assert_eq!(rounds.page(at(15), &view(State::OnWire, 1, 0, 20 * MB, 30 * MB), sent(2 * MB, MB)), Step::Same);
        assert_eq!(
            rounds.page(at(90), &view(State::Compute, 2, 20 * MB, 20 * MB, 30 * MB), sent(30 * MB, 0)),
            Step::Ended
        );
        assert_eq!(rounds.page(at(95), &view(State::Compute, 2, 20 * MB, 20 * MB, 30 * MB), sent(0, 0)), Step::Same);
        assert_eq!(
            rounds.page(at(99), &view(State::OnWire, 2, 20 * MB, 40 * MB, 60 * MB), sent(0, 0)),
            Step::Began(Bytes(30 * MB))
        );
        assert_eq!(rounds.period(), at(94));
    }

    #[test]
    fn a_new_iteration_with_bytes_is_a_new_round_even_if_the_pause_was_missed() {
        let mut rounds = Rounds::default();
        rounds.page(at(0), &view(State::Compute, 1, 0, 0, 0), sent(0, 0));
        rounds.page(at(1), &view(State::OnWire, 1, 0, 20 * MB, 30 * MB), sent(0, 0));
        let step = rounds.page(at(70), &view(State::OnWire, 2, 20 * MB, 30 * MB, 45 * MB), sent(30 * MB, 0));
        assert_eq!(step, Step::Began(Bytes(15 * MB)));
        assert_eq!(rounds.ended, 1);
    }

    #[test]
    fn a_page_without_iterations_still_has_rounds() {
        let mut rounds = Rounds::default();
        rounds.page(at(0), &view(State::Compute, 0, 0, 0, 0), sent(0, 0));
        for n in 1..5 {
            let bytes = n * 10 * MB;
            assert_eq!(
                rounds.page(at(n * 100), &view(State::OnWire, 0, 0, bytes, bytes), sent(0, 0)),
                Step::Began(Bytes(10 * MB))
            );
            assert_eq!(
                rounds.page(at(n * 100 + 50), &view(State::Compute, 0, 0, bytes, bytes), sent(10 * MB, 0)),
                Step::Ended
            );
        }
    }

    #[test]
    fn a_claim_is_held_against_the_kernel_and_a_liar_is_ignored() {
        let mut rounds = Rounds::default();
        rounds.page(at(0), &view(State::Compute, 0, 0, 0, 0), sent(0, 0));
        let mut wire = 0;
        for n in 1..=5_u64 {
            let before = wire;
            wire += if n <= 2 { MB } else { 1000 * MB };
            let step = rounds.page(at(n * 100), &view(State::OnWire, n, before, wire, wire), sent(0, 0));
            let Step::Began(demand) = step else { panic!("round {n}: {step:?}") };
            if n > 2 {
                assert!(demand.0 <= 2 * MB + SLACK.0, "{demand} in round {n}");
            }
            rounds.page(at(n * 100 + 50), &view(State::Compute, n, before, wire, wire), sent(MB, 0));
        }
        assert!(rounds.ignored(at(600)) && !rounds.ignored(at(61_000)));
    }

    #[test]
    fn a_page_whose_sockets_have_no_rows_is_believed_and_contradicts_nobody() {
        let mut rounds = Rounds { unseen: true, ..Rounds::default() };
        for n in 1..=9_u64 {
            let at = |ms| at(n * 20_000 + ms);
            let page = |state| view(state, n, (n - 1) * 50 * MB, n * 50 * MB, n * 50 * MB);
            assert!(matches!(rounds.page(at(0), &page(State::OnWire), sent(0, 0)), Step::Began(_)), "round {n}");
            // It is not given up for moving no byte that anybody could see.
            assert_eq!(rounds.page(at(9_000), &page(State::OnWire), sent(0, 0)), Step::Same, "round {n}");
            assert_eq!(rounds.page(at(9_500), &page(State::Compute), sent(0, 0)), Step::Ended, "round {n}");
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
            rounds.page(at(i), &v, sent(big(next()), big(next())));
            if i % 3 == 0 {
                rounds.burst(at(i), sent(big(next()), big(next())), Bytes(big(next())));
            }
        }
    }
}
