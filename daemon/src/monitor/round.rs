//! When a process's communication round begins, how many bytes it has, and when it is over.
//!
//! With a progress page the process says so itself; what it says is a claim, held against the bytes the kernel saw
//! acknowledged ([`Rounds::page`]). Without a page the bytes of an iteration are learned from the counts, and a round is
//! over when they are through, however it pauses; until they are known a burst after a pause is a round, and the bytes of
//! the last rounds are the estimate ([`Rounds::burst`]).

use sluice_progress::{PageView, State};
use sluice_schedule::{Bytes, Nanos};

use super::bursts::Bursts;
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
    bursts: Bursts,
    iteration: u64,
    base_wire: u64,
    last_wire: u64,
    last_enqueued: u64,
    seen: bool,
    contradictions: u32,
    ignored_until: Nanos,
    /// How often that began since it was asked for.
    ignorings: u64,
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

    /// Goes on by what the page says. `sent` counts from the last [`Step::Began`]; `moved`: acknowledged since the last call.
    pub fn page(&mut self, now: Nanos, view: &PageView, sent: Sent, moved: Bytes) -> Step {
        let quiet = matches!(view.state, State::Init | State::Compute | State::Finished);
        self.bursts.look(now, moved, sent.queued, quiet);
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
            self.bursts.round_began();
            self.bursts.says(claim);
            self.claim = claim;
            self.demand = self.clamp(claim, sent.queued).max(self.bursts.left());
            return Step::Began(self.demand);
        }
        let given_up = !self.unseen && now.minus(self.moved_at) > GIVE_UP && sent.queued == Bytes::ZERO;
        if quiet && view.state != State::Init || given_up {
            self.base_wire = wire;
            self.end(now, sent);
            return Step::Ended;
        }
        self.claim = self.claim.max(claim);
        self.bursts.says(claim);
        let demand = self.clamp(self.claim, sent.queued).max(sent.delivered.plus(self.bursts.left()));
        if demand > self.demand {
            self.demand = demand;
            return Step::Grew(demand);
        }
        Step::Same
    }

    /// How often the page began to be ignored since the last call.
    pub fn take_ignorings(&mut self) -> u64 {
        std::mem::take(&mut self.ignorings)
    }

    /// What was counted, and how far the pages were believed, for the process's next page.
    pub fn past(self) -> Rounds {
        let Rounds { ended, history, largest, bursts, contradictions, ignored_until, .. } = self;
        Rounds { ended, history, largest, bursts, contradictions, ignored_until, ..Rounds::default() }
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
            self.ignorings += 1;
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
mod tests;
