//! A* rounds: a schedule piece by piece, each piece a short integer program that also counts how near chunks have come.
//!
//! A round is some epochs long, longer than any chunk is under way. What earlier rounds started is fixed: chunks that are
//! held or will arrive, and rooms that are still filled. In its program B(c, n, k) is 1 from the epoch on in which node n
//! will hold chunk c, up to the last arrival of what the round starts; P(n, d, k) is how many of the chunks that node d
//! still wants are counted at node n, which is worth the more the nearer n is to d.
//!
//! Source: section 5 and appendix D of the paper, with rooms that stay filled across rounds.

use std::collections::BTreeMap;

use sluice_formats::problem::{Code, INTERNAL_INVARIANT, Problem, Problems};
use sluice_planners::teccl::demand::Demand;
use sluice_planners::teccl::lane::Lanes;
use sluice_planners::teccl::schedule::{Schedule, Send};
use sluice_planners::teccl::{Found, Goal, Instance, Objective, Search};
use sluice_planners::{Run, Stage, Stopped};
use sluice_solver::{Answer, Bounds, Failed};

use super::builder::{Builder, Built, Drafted};
use super::milp::{failed, unusable};
use super::model::{Filling, Starts};

/// A round is no longer than what chunks can be under way.
const ROUND_TOO_SHORT: Code = "RoundTooShort";
/// Nothing comes nearer in a round.
const NO_PROGRESS: Code = "NoProgress";
/// What a chunk near its destination is worth beside one that is there.
const GAMMA: f64 = 0.5;
/// A round ends at this distance of its value and its bound.
const GAP: f64 = 0.01;

/// Whole chunks, round by round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// Where the solver's random numbers begin.
    pub seed: u32,
    /// Epochs of a round; `None`: twice what the slowest chunk is under way.
    pub epochs: Option<u64>,
}

/// What earlier rounds came to.
struct State<'a> {
    lanes: &'a Lanes,
    demand: &'a Demand,
    sends: Vec<Send>,
    /// By chunk and node the first epoch in which it is held, `u64::MAX` where it is not.
    held: Vec<Vec<u64>>,
}

/// A round to be planned.
#[derive(Clone, Copy)]
struct Round {
    begin: u64,
    /// Epochs in which something may start.
    epochs: u64,
    /// Epochs that chunks are under way at most.
    after: u64,
}

impl Search for Rounds {
    fn needs_start(&self) -> bool {
        false
    }

    fn search(&self, instance: &Instance<'_>, _: Goal, found: Found, run: &Run<'_>) -> Result<Found, Problems> {
        let (lanes, demand) = (&instance.lanes, &instance.demand);
        let after = lanes.lanes.iter().map(|lane| lane.after).max().unwrap_or(1);
        let mut epochs = self.epochs.unwrap_or(2 * after);
        if epochs < after {
            let error = Problem::new(ROUND_TOO_SHORT, "epochs", "chunks are under way for longer than a round");
            return Err(error.found(epochs.to_string()).allowed(format!("{after} or more")).into());
        }
        if lanes.nodes.iter().any(|node| node.buffer.is_some() && !node.is_switch) {
            let error = Problem::new("Solver", "solver", "rounds know nothing of finite buffers").found("astar");
            return Err(error.allowed("auto, milp, none").into());
        }
        let held = |chunk: &sluice_planners::teccl::demand::Chunk| {
            let mut held = vec![u64::MAX; lanes.nodes.len()];
            held[chunk.source] = 0;
            held
        };
        let held = demand.chunks.iter().map(held).collect();
        let mut state = State { lanes, demand, sends: Vec::new(), held };
        let near: Vec<Vec<u64>> = (0..lanes.nodes.len()).map(|node| lanes.distances_to(node)).collect();
        let (mut begin, mut doubled) = (0, false);
        while state.open() > 0 {
            let total = demand.triples();
            run.tell(
                Stage::Program,
                (total - state.open()) as u64,
                total as u64,
                format_args!("round from epoch {begin}: {} of {total} demands open", state.open()),
            );
            let round = Round { begin, epochs, after };
            let Some(Built { mut program, stands }) = state.program(round, &near).map_err(failed)? else {
                return Ok(found);
            };
            let (seed, deadline, cancel) = (self.seed, run.deadline, run.cancel);
            let options =
                sluice_solver::Options { seed, deadline, cancel, gap: GAP, ..sluice_solver::Options::default() };
            let solution = match program.solve(&options, None).map_err(failed)? {
                Answer::Optimal(solution) | Answer::TimeLimit(Some(solution)) if solution.feasible => solution,
                Answer::TimeLimit(_) => return Err(Stopped::TimeLimit.problem().into()),
                other => return Err(unusable(other)),
            };
            let new = stands.iter().zip(&solution.values).filter(|(stands, value)| stands.is_some() && **value > 0.5);
            let new: Vec<Send> = new.filter_map(|(stands, _)| *stands).collect();
            let moved = state.add(&new);
            begin += epochs;
            if !moved && state.open() > 0 {
                if doubled {
                    let message = "in a whole round no chunk comes nearer to anybody who wants it";
                    return Err(Problem::new(NO_PROGRESS, "", message).help("take longer rounds: --epochs").into());
                }
                (epochs, doubled) = (epochs * 2, true);
            }
        }
        let schedule = Schedule::pruned(lanes, demand, &state.sends);
        let fault = |_| Problem::new(INTERNAL_INVARIANT, "", "the rounds are no schedule");
        Ok(Found { schedule: Some(schedule.map_err(fault)?), ..found })
    }
}

impl State<'_> {
    /// Demands that are not met, and will not be by what has started.
    fn open(&self) -> usize {
        let wanted = self.demand.chunks.iter().zip(&self.held);
        wanted.flat_map(|(chunk, held)| chunk.wanted_by.iter().filter(|node| held[**node] == u64::MAX)).count()
    }

    /// Adds what a round starts; does anybody new get anything by it?
    fn add(&mut self, new: &[Send]) -> bool {
        let mut moved = false;
        for send in new {
            let lane = &self.lanes.lanes[send.lane];
            let held = &mut self.held[send.chunk][lane.to];
            if self.lanes.nodes[lane.to].is_switch {
                moved = true;
            } else if send.epoch + lane.after < *held {
                (*held, moved) = (send.epoch + lane.after, true);
            }
        }
        self.sends.extend(new);
        moved
    }

    /// The first epoch in which a chunk can be at every node, what is under way counted.
    fn earliest(&self, chunk: usize) -> Vec<u64> {
        let mut earliest = self.held[chunk].clone();
        for send in self.sends.iter().filter(|send| send.chunk == chunk) {
            let lane = &self.lanes.lanes[send.lane];
            if self.lanes.nodes[lane.to].is_switch {
                earliest[lane.to] = earliest[lane.to].min(send.epoch + lane.after);
            }
        }
        // As many passes as a way has lanes: rounds are short, and so are ways.
        let mut changed = true;
        while changed {
            changed = false;
            for lane in self.lanes.lanes.iter().filter(|lane| self.held[chunk][lane.to] == u64::MAX) {
                let there = earliest[lane.from].saturating_add(lane.after);
                if there < earliest[lane.to] {
                    (earliest[lane.to], changed) = (there, true);
                }
            }
        }
        earliest
    }

    /// The program of a round, and by column the send it stands for; `None` where it would be too large.
    fn program(&self, round: Round, near: &[Vec<u64>]) -> Result<Option<Built<Option<Send>>>, Failed> {
        let Round { begin, epochs, after } = round;
        let (lanes, end, last) = (self.lanes, begin + epochs, begin + epochs - 1 + after);
        let mut builder: Builder<Option<Send>> = Builder::new();
        let binary = Bounds { lower: 0.0, upper: 1.0 };
        let mut by_room: Vec<Vec<Filling>> = vec![Vec::new(); lanes.rooms.len()];
        // By node and destination and epoch: what is there of what the destination wants, known and by columns.
        let mut there: BTreeMap<(usize, usize, u64), (u64, Vec<Drafted>)> = BTreeMap::new();
        let mut wanted: BTreeMap<usize, u64> = BTreeMap::new();
        for (number, chunk) in self.demand.chunks.iter().enumerate() {
            let held = &self.held[number];
            let open: Vec<usize> = chunk.wanted_by.iter().copied().filter(|node| held[*node] == u64::MAX).collect();
            if open.is_empty() {
                continue;
            }
            open.iter().for_each(|node| *wanted.entry(*node).or_default() += 1);
            let earliest = self.earliest(number);
            let useful = |node: usize| open.iter().any(|to| near[*to][node] < u64::MAX);
            let mut starts = Starts::default();
            for (place, lane) in lanes.lanes.iter().enumerate() {
                if held[lane.to] < u64::MAX || !useful(lane.to) {
                    continue;
                }
                for epoch in earliest[lane.from].max(begin)..end {
                    let column = builder.binary(Some(Send { epoch, chunk: number, lane: place }));
                    starts.by_lane.entry(place).or_default().insert(epoch, column);
                    lane.rooms
                        .iter()
                        .for_each(|room| by_room[*room].push(Filling { epoch, kappa: lane.kappa, column }));
                }
            }
            if builder.is_full() {
                return Ok(None);
            }
            for (node, of) in lanes.nodes.iter().enumerate() {
                if of.is_switch {
                    self.switch(&mut builder, &starts, number, node, begin..end)?;
                    continue;
                }
                let mut count = |epoch: u64, known: u64, column: Option<Drafted>| {
                    for to in open.iter().filter(|_| epoch >= end) {
                        let of = there.entry((node, *to, epoch - end)).or_default();
                        of.0 += known;
                        of.1.extend(column);
                    }
                };
                if held[node] < u64::MAX {
                    (end..=last).filter(|epoch| held[node] <= *epoch).for_each(|epoch| count(epoch, 1, None));
                    continue;
                }
                let wants = open.contains(&node);
                let mut before: Option<Drafted> = None;
                for epoch in earliest[node].max(begin)..=last {
                    let gain = if wants && epoch > begin && epoch <= end {
                        Objective::Harmonic.gain(epoch - begin) * self.demand.weight(number)
                    } else {
                        0.0
                    };
                    let holds = builder.column(gain, binary, None);
                    let came = starts.arrivals(lanes, node, epoch).map(|column| (column, -1.0));
                    let came: Vec<(Drafted, f64)> = came.chain(before.map(|before| (before, -1.0))).collect();
                    builder.sum(Bounds::exactly(0.0), came.into_iter().chain([(holds, 1.0)]))?;
                    for lane in &lanes.out[node] {
                        if let Some(send) = starts.at(*lane, epoch) {
                            builder.sum(Bounds::at_most(0.0), [(send, 1.0), (holds, -1.0)])?;
                        }
                    }
                    count(epoch, 0, Some(holds));
                    before = Some(holds);
                }
            }
        }
        self.rooms(&mut builder, by_room)?;
        progress(&mut builder, there, &wanted, near)?;
        builder.finish().map(Some)
    }

    /// A switch sends in an epoch what arrives for it, in this round or from the one before.
    fn switch(
        &self,
        builder: &mut Builder<Option<Send>>,
        starts: &Starts,
        chunk: usize,
        node: usize,
        epochs: std::ops::Range<u64>,
    ) -> Result<(), Failed> {
        let lanes = self.lanes;
        for epoch in epochs {
            let leaving: Vec<Drafted> = lanes.out[node].iter().filter_map(|lane| starts.at(*lane, epoch)).collect();
            let known = self.sends.iter().filter(|send| {
                let lane = &lanes.lanes[send.lane];
                send.chunk == chunk && lane.to == node && send.epoch + lane.after == epoch
            });
            let known = known.count() as f64;
            let groups: Vec<&[Drafted]> =
                if lanes.nodes[node].copies { leaving.chunks(1).collect() } else { vec![&leaving] };
            for group in groups.into_iter().filter(|group| !group.is_empty()) {
                let came = starts.arrivals(lanes, node, epoch).map(|column| (column, -1.0));
                let leaves = group.iter().map(|column| (*column, 1.0));
                builder.sum(Bounds::at_most(known), came.chain(leaves).collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// No room holds more at a time than it can, what rounds before left in it counted.
    fn rooms(&self, builder: &mut Builder<Option<Send>>, by_room: Vec<Vec<Filling>>) -> Result<(), Failed> {
        let mut known: Vec<Vec<(u64, u64)>> = vec![Vec::new(); self.lanes.rooms.len()];
        for send in &self.sends {
            let lane = &self.lanes.lanes[send.lane];
            lane.rooms.iter().for_each(|room| known[*room].push((send.epoch, lane.kappa)));
        }
        for (room, fillings) in by_room.into_iter().enumerate() {
            let mut epochs: Vec<u64> = fillings.iter().map(|filling| filling.epoch).collect();
            epochs.sort_unstable();
            epochs.dedup();
            for epoch in epochs {
                let fills = |start: u64, kappa: u64| start <= epoch && epoch < start + kappa;
                let there = fillings.iter().filter(|filling| fills(filling.epoch, filling.kappa));
                let there: Vec<(Drafted, f64)> = there.map(|filling| (filling.column, 1.0)).collect();
                let taken = known[room].iter().filter(|(start, kappa)| fills(*start, *kappa)).count() as u64;
                let limit = self.lanes.rooms[room].limit(epoch).saturating_sub(taken);
                if there.len() as u64 > limit {
                    builder.sum(Bounds::at_most(limit as f64), there)?;
                }
            }
        }
        Ok(())
    }
}

/// What chunks that are not there yet are worth by where they are.
fn progress(
    builder: &mut Builder<Option<Send>>,
    there: BTreeMap<(usize, usize, u64), (u64, Vec<Drafted>)>,
    wanted: &BTreeMap<usize, u64>,
    near: &[Vec<u64>],
) -> Result<(), Failed> {
    let mut counted: BTreeMap<(usize, u64), Vec<Drafted>> = BTreeMap::new();
    for ((node, to, epoch), (known, columns)) in there {
        if near[to][node] == u64::MAX {
            continue;
        }
        let distance = if node == to { 1.0 } else { GAMMA / (1.0 + near[to][node] as f64) };
        let worth = distance / (1 + epoch) as f64;
        let count = builder.column(worth, Bounds { lower: 0.0, upper: f64::INFINITY }, None);
        let held = columns.into_iter().map(|column| (column, -1.0));
        builder.sum(Bounds::at_most(known as f64), held.chain([(count, 1.0)]).collect::<Vec<_>>())?;
        counted.entry((to, epoch)).or_default().push(count);
    }
    for ((to, _), columns) in counted {
        let all = wanted.get(&to).copied().unwrap_or(0) as f64;
        builder.sum(Bounds::exactly(all), columns.into_iter().map(|column| (column, 1.0)))?;
    }
    Ok(())
}
