//! A job on this host, and its rounds as the brain hears of them: one per job, whatever the number of its processes.

use std::collections::BTreeSet;

use sluice_schedule::{Bytes, Event, Nanos, Now, Pattern};

use super::plans::Following;
use super::round::{Sent, Step};
use super::shares::Tenant;
use super::sockets::{Socket, Sockets};
use super::{EndedRound, Monitor, ProcessKey};

/// Rounds whose duration is remembered per job.
const MAX_RECENT: usize = 32;
/// A flow that carries less than this in a round, ...
const MAX_WORDS: Bytes = Bytes(32 << 10);
/// ... and less than this part of what the process's largest flow carries, carries no tensors.
const WORDS_PART: u64 = 64;
/// A guess is made anew when less than this part of what was sent is left of it.
const AHEAD: u64 = 4;

#[derive(Clone, Debug, Default)]
pub struct Job {
    pub name: String,
    pub pattern: Pattern,
    /// The plan it follows, if it names one.
    pub following: Following,
    pub processes: BTreeSet<ProcessKey>,
    /// Whose place among all jobs it has.
    pub tenant: Tenant,
    /// Processes that are in the present round.
    pub(super) in_round: BTreeSet<ProcessKey>,
    pub rounds: u64,
    pub finished: u64,
    pub rounds_time: Nanos,
    /// Payload acknowledged on its flows.
    pub acked: Bytes,
    began: Nanos,
    recent: Vec<Nanos>,
}

impl Job {
    /// Median duration of the last rounds.
    pub fn median_round(&self) -> Option<Nanos> {
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    fn finish(&mut self, now: Nanos) -> Nanos {
        let time = now.minus(self.began);
        self.finished += 1;
        self.rounds_time = self.rounds_time.plus(time);
        if self.recent.len() == MAX_RECENT {
            self.recent.remove(0);
        }
        self.recent.push(time);
        self.in_round.clear();
        time
    }
}

impl Monitor {
    /// Goes on with the rounds of every process.
    pub(super) fn rounds(&mut self, now: Now, out: &mut Vec<Event>) {
        let keys: Vec<ProcessKey> = self.processes.keys().copied().collect();
        for key in keys {
            let Some(process) = self.processes.get_mut(&key) else { continue };
            let (mut sent, mut moved) = (Sent::default(), Bytes::ZERO);
            process.rounds.unseen = true;
            self.sockets.each_of(key, |socket| {
                if !process.rounds.active {
                    socket.idle();
                }
                sent.delivered = sent.delivered.plus(socket.delivered());
                sent.queued = sent.queued.plus(socket.stats.queued);
                moved = moved.plus(socket.take_moved());
                process.rounds.unseen = false;
            });
            process.sight.look(now.mono, process.rounds.unseen);
            let step = process.step(now.mono, sent, moved);
            let ignorings = process.rounds.take_ignorings();
            if ignorings > 0 {
                self.ignored_pages += ignorings;
                let (job, rank) = (&process.job_name, process.rank);
                tracing::info!(event = "page-ignored", job, ?rank, "its claims are not what the kernel counts");
            }
            if let Some(bytes) = process.rounds.take_learned() {
                let (job, rank) = (&process.job_name, process.rank);
                tracing::info!(
                    event = "iteration-learned",
                    job,
                    ?rank,
                    bytes = bytes.0,
                    "bytes of an iteration are known"
                );
            }
            let resplit = std::mem::take(&mut process.resplit) && process.rounds.active;
            let (demand, guesses) = (process.rounds.demand, process.guesses());
            match step {
                Step::Grew(_) | Step::Same if guesses => out.extend(guess(&mut self.sockets, key)),
                Step::Began(demand) => self.began(now.mono, key, demand, out),
                Step::Grew(demand) => self.split(key, demand, out),
                Step::Same if resplit => self.split(key, demand, out),
                Step::Same => {}
                Step::Ended => self.ended(now.mono, key, out),
            }
        }
    }

    fn began(&mut self, now: Nanos, key: ProcessKey, demand: Bytes, out: &mut Vec<Event>) {
        let Some(process) = self.processes.get(&key) else { return };
        let id = process.job;
        self.sockets.each_of(key, |socket| {
            socket.begin(Bytes::ZERO);
            socket.report_again();
        });
        let joins = self.jobs.get(&id).is_some_and(|job| !job.in_round.is_empty() && !job.in_round.contains(&key));
        if joins {
            self.split(key, demand, out);
        } else {
            if process.guesses() {
                guess(&mut self.sockets, key);
            } else {
                shares(&mut self.sockets, key, demand, process.plan_parts);
            }
            // A round of the job: flows of its other processes keep what they have.
            let others =
                self.sockets.iter_mut().filter(|socket| socket.told.as_ref().is_some_and(|spec| spec.job == id));
            let flows = others
                .map(|socket| {
                    socket.report_again();
                    (socket.flow, socket.demand)
                })
                .collect();
            out.push(Event::RoundBegan { job: id, flows });
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            if !joins {
                if !job.in_round.is_empty() {
                    // The pause between two rounds was too short to be seen.
                    let took = job.finish(now);
                    self.ended_rounds.push(EndedRound { job: id, round: job.rounds, took });
                }
                job.rounds += 1;
                job.began = now;
            }
            job.in_round.insert(key);
        }
    }

    fn split(&mut self, key: ProcessKey, demand: Bytes, out: &mut Vec<Event>) {
        let Some(process) = self.processes.get(&key) else { return };
        if process.guesses() {
            guess(&mut self.sockets, key);
        } else {
            shares(&mut self.sockets, key, demand, process.plan_parts);
        }
        let told = self.sockets.of(key).filter(|socket| socket.told.is_some());
        out.extend(told.map(|socket| Event::DemandChanged { flow: socket.flow, demand: socket.demand }));
    }

    fn ended(&mut self, now: Nanos, key: ProcessKey, out: &mut Vec<Event>) {
        let exact = self.processes.get(&key).is_some_and(|process| process.rounds.exact);
        self.sockets.each_of(key, |socket| {
            if exact {
                socket.end_exactly()
            } else {
                socket.end()
            }
            if socket.told.is_some() {
                out.push(Event::DemandChanged { flow: socket.flow, demand: socket.demand });
            }
        });
        let Some(id) = self.processes.get(&key).map(|process| process.job) else { return };
        let over = |key: &ProcessKey| self.processes.get(key).is_none_or(|process| !process.rounds.active);
        if let Some(job) = self.jobs.get_mut(&id)
            && job.in_round.iter().all(over)
            && !job.in_round.is_empty()
        {
            let took = job.finish(now);
            self.ended_rounds.push(EndedRound { job: id, round: job.rounds, took });
        }
    }
}

/// The demands of a round of which nobody says how many bytes it has: of every flow what it had in the last round, and as
/// much again as it has sent once that is passed. So a flow that sends is never thought to be done, which would hold it at
/// its floor for every part of a round that comes after a pause. Returns what changed.
fn guess(sockets: &mut Sockets, key: ProcessKey) -> Vec<Event> {
    let seen = |socket: &Socket| socket.delivered().plus(socket.stats.queued);
    let told = |socket: &&Socket| socket.told.is_some();
    let most = |socket: &Socket| seen(socket).max(socket.last_round);
    let words = few_words(sockets.of(key).filter(told).map(most).max());
    let mut changed = Vec::new();
    sockets.each_of(key, |socket| {
        if socket.told.is_none() {
            return;
        }
        let before = socket.demand;
        let seen = seen(socket);
        socket.demand = match () {
            () if most(socket) < words => socket.delivered(),
            () if seen <= socket.last_round => socket.last_round,
            () if seen.0.saturating_add(seen.0 / AHEAD) <= before.0 => before,
            () => Bytes(seen.0.saturating_mul(2)),
        };
        if socket.demand != before {
            changed.push(Event::DemandChanged { flow: socket.flow, demand: socket.demand });
        }
    });
    changed
}

/// Flows that carry less than this are taken to carry words only, where the largest carries so much.
fn few_words(largest: Option<Bytes>) -> Bytes {
    Bytes(largest.unwrap_or(Bytes::ZERO).0 / WORDS_PART).min(MAX_WORDS)
}

/// Splits a round among the flows of a process: as its plan says, else as its last round was, or evenly while some flow
/// has no past. `plan_parts`: what all flows of the process carry together by its plan, those on this host too.
///
/// A flow that carried next to nothing carries words of a library, as Gloo's "ready to receive", and gets none of the
/// round: all flows of a job on a link run at one rate, and it would keep from the others what it never uses.
fn shares(sockets: &mut Sockets, key: ProcessKey, demand: Bytes, plan_parts: u64) {
    let told = |socket: &&Socket| socket.told.is_some();
    let count = sockets.of(key).filter(told).count() as u64;
    let words = few_words(sockets.of(key).filter(told).map(|socket| socket.last_round).max());
    let carried = |socket: &Socket| if socket.last_round < words { 0 } else { socket.last_round.0 };
    let total = sockets.of(key).filter(told).fold(0_u64, |sum, socket| sum.saturating_add(carried(socket)));
    let by_history = total > 0 && sockets.of(key).filter(told).all(|socket| socket.rounds > 0);
    sockets.each_of(key, |socket| {
        let Some(spec) = &socket.told else { return };
        let planned = spec.share.parts();
        let share = if plan_parts > 0 {
            u128::from(demand.0) * u128::from(planned) / u128::from(plan_parts)
        } else if by_history {
            u128::from(demand.0) * u128::from(carried(socket)) / u128::from(total)
        } else {
            u128::from(demand.0 / count.max(1))
        };
        socket.demand = Bytes(u64::try_from(share).unwrap_or(u64::MAX)).max(socket.delivered());
    });
}
