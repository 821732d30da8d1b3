//! Kind `steps`: the replay of synchronised steps. A step's sends use what was there before it.
//!
//! Steps that copy leave a copy behind where the node can copy. Steps that reduce move a sum: it is gone from the sender
//! and added at the receiver, or kept apart where that one cannot add. So no contribution is ever lost or counted
//! twice, and once all of them have left everybody but the owner, the owner has each exactly once. A node that cannot
//! store has what came in one step for the next one only. One that takes no part and cannot copy passes on all that comes:
//! nothing else is to be done with it there.

use std::panic::resume_unwind;
use std::thread;

use super::fabric::Fabric;
use super::ledger::Ledger;
use super::shards::Shards;
use super::step_loads::{self, Loaded};
use super::violation::{Code, Violation};
use super::{Report, claims, overlap};
use crate::plan::{Collective, Op, Plan, Step, StepSend, Steps};

/// Units of a shard at most: times any share, and as often as a plan has sends, they are counted in 128 bits.
const MAX_UNITS: u64 = 1 << 36;

/// Checks the steps and what they claim.
pub fn check(plan: &Plan, fabric: &Fabric<'_>, steps: &Steps, report: &mut Report) -> Result<(), Violation> {
    let shards = Shards::new(plan, fabric)?;
    if !(1..=MAX_UNITS).contains(&steps.p) {
        let message = format!("a shard of {} units; 1 to {MAX_UNITS} are possible", steps.p);
        return Err(Violation::new(Code::InvalidChunking, "/content/P", message));
    }
    let first_copy = steps.steps.iter().position(|step| step.op == Op::Copy).unwrap_or(steps.steps.len());
    let collective = plan.body.collective;
    let reduces = matches!(collective, Collective::ReduceScatter | Collective::Reduce | Collective::AllReduce);
    let copies = !matches!(collective, Collective::ReduceScatter | Collective::Reduce);
    for (i, step) in steps.steps.iter().enumerate() {
        let fits = match step.op {
            Op::Reduce => reduces && i < first_copy,
            Op::Copy => copies,
        };
        if !fits {
            let message = format!("a step that does `{}` here does not fit `{}`", step.op.word(), collective.word());
            return Err(Violation::new(Code::WrongSteps, format!("/content/steps/{i}/op"), message));
        }
    }
    let both = reduces && copies && steps.step_length.is_some();
    if let Some(i) = steps.steps.iter().position(|step| step.copies.is_some() && (step.op == Op::Copy || !both)) {
        let message = "only steps of a given length that add up for an all-reduce may copy besides";
        return Err(Violation::new(Code::WrongSteps, format!("/content/steps/{i}/copies"), message));
    }
    let replay = Replay::new(fabric, steps, &shards);
    for (i, step) in steps.steps.iter().enumerate() {
        replay.read(i, step)?;
    }
    let follow = || -> Result<(), Violation> {
        if reduces {
            replay.reduce(&steps.steps[..first_copy])?;
        }
        if copies {
            let copying = |step: &Step| step.op == Op::Copy || step.copies.is_some();
            replay.copy(steps.steps.iter().position(copying).unwrap_or(steps.steps.len()))?;
        }
        if both && steps.steps.iter().any(|step| step.copies.is_some()) { replay.sums_first() } else { Ok(()) }
    };
    // What links carry is added up beside the replay: neither asks the other anything.
    let (replayed, loaded) = thread::scope(|scope| {
        let loaded = scope.spawn(|| Loaded::of(fabric, steps, &shards));
        (follow(), loaded.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    replayed?;
    let sends: usize = steps.steps.iter().map(|step| step.all().count()).sum();
    let (n, count) = (fabric.participants.len(), steps.steps.len());
    report.proved.push(format!("all {n} participants end with what they are owed, by {sends} sends in {count} steps"));
    let achieved = step_loads::check(plan, fabric, steps, &shards, loaded?, report)?;
    claims::check(plan, fabric, &achieved, report)
}

/// The ends of a link.
#[derive(Clone, Copy)]
struct Ends {
    from: usize,
    to: usize,
}

struct Replay<'a> {
    fabric: &'a Fabric<'a>,
    steps: &'a Steps,
    shards: &'a Shards,
    /// By link: millions of sends ask for nothing else of it.
    ends: Vec<Ends>,
}

impl<'a> Replay<'a> {
    fn new(fabric: &'a Fabric<'a>, steps: &'a Steps, shards: &'a Shards) -> Replay<'a> {
        let ends = fabric.topology.links().iter().map(|link| Ends { from: link.from, to: link.to }).collect();
        Replay { fabric, steps, shards, ends }
    }

    /// Is everything there that a step names?
    fn read(&self, i: usize, step: &Step) -> Result<(), Violation> {
        for op in [Op::Reduce, Op::Copy] {
            let (sends, key) = step.doing(op);
            for (j, send) in sends.iter().enumerate() {
                self.read_send(*send, || format!("/content/steps/{i}/{key}/{j}"))?;
            }
        }
        Ok(())
    }

    fn read_send(&self, send: StepSend, at: impl Fn() -> String) -> Result<(), Violation> {
        let bad = |code, part: &str, message: String| Err(Violation::new(code, format!("{}{part}", at()), message));
        if self.shards.item(send.shard).is_none() {
            return bad(Code::WrongShard, "/0", "this collective has no such shard".into());
        }
        if send.lo >= send.hi || send.hi > self.steps.p {
            let message = format!("[{}, {}) is no part of {} units", send.lo, send.hi, self.steps.p);
            return bad(Code::InvalidChunking, "", message);
        }
        let Some(link) = self.ends.get(send.link as usize).filter(|link| link.from != link.to) else {
            return bad(Code::NoLink, "/3", format!("no link {} that carries anything", send.link));
        };
        let outside = [link.from, link.to].into_iter().find(|node| !self.fabric.takes_part(*node));
        if let Some(node) = outside.filter(|_| self.steps.step_length.is_none()) {
            let message = format!("{} takes no part; only steps of a given length may use it", self.fabric.id(node));
            return bad(Code::NotParticipant, "/3", message);
        }
        Ok(())
    }

    /// Where a send that was read begins and ends, and the item that it is of.
    fn sent(&self, send: StepSend) -> Option<(Ends, u64)> {
        self.ends.get(send.link as usize).copied().zip(self.shards.item(send.shard))
    }

    /// What everybody holds before the first step.
    fn ledger<F: Fn((usize, u64)) -> u32>(&self, starts: F) -> Ledger<F> {
        Ledger::new(self.steps.p, self.fabric.topology.nodes().len(), self.shards.items(), starts)
    }

    /// Moves sums until only owners have any.
    fn reduce(&self, steps: &[Step]) -> Result<(), Violation> {
        let fabric = self.fabric;
        let mut ledger = self.ledger(|(node, _)| u32::from(fabric.takes_part(node)));
        let nodes = fabric.topology.nodes();
        self.replay((Op::Reduce, steps, 0), &mut ledger, |_| true, |node| nodes[node].can.reduce)?;
        let left = |node: usize, item: u64| {
            let message =
                format!("{} keeps a part of shard {} that never is added up", fabric.id(node), self.shards.name(item));
            Err(Violation::new(Code::MissingData, "/content/steps", message))
        };
        for item in self.shards.all() {
            for (rank, node) in fabric.participants.iter().enumerate() {
                let is_owner = rank == self.shards.owner(item);
                if !ledger.holds((*node, item), u32::from(is_owner)) {
                    return left(*node, item);
                }
            }
        }
        let mut others: Vec<_> = ledger.touched();
        others.retain(|(node, _)| !fabric.takes_part(*node));
        others.sort_unstable();
        match others.into_iter().find(|place| !ledger.holds(*place, 0)) {
            Some((node, item)) => left(node, item),
            None => Ok(()),
        }
    }

    /// Copies until everybody has what it is owed.
    fn copy(&self, before: usize) -> Result<(), Violation> {
        let (fabric, shards, steps) = (self.fabric, self.shards, &self.steps.steps[before..]);
        let starts = |(node, item)| u32::from(fabric.participants.get(shards.owner(item)) == Some(&node));
        let mut ledger = self.ledger(starts);
        let nodes = fabric.topology.nodes();
        let copies = |node: usize| nodes[node].can.copy;
        self.replay((Op::Copy, steps, before), &mut ledger, |node| !copies(node), copies)?;
        let mut passing = ledger.touched();
        passing.retain(|(node, _)| !fabric.takes_part(*node) && !nodes[*node].can.copy);
        passing.sort_unstable();
        if let Some((node, item)) = passing.into_iter().find(|place| !ledger.holds(*place, 0)) {
            let message = format!("{} never passes on all that comes of shard {}", fabric.id(node), shards.name(item));
            return Err(Violation::new(Code::HopUnbalanced, "/content/steps", message));
        }
        for item in shards.all() {
            for rank in shards.wanted_by(item).filter(|rank| *rank != shards.owner(item)) {
                let node = fabric.participants[rank];
                if let Some(unit) = ledger.missing((node, item), 0, self.steps.p) {
                    let name = shards.name(item);
                    let message = format!("{} never gets unit {unit} of shard {name}", fabric.id(node));
                    return Err(Violation::new(Code::MissingData, "/content/steps", message));
                }
            }
        }
        Ok(())
    }

    /// No part of a sum is copied before the last of it has been added.
    fn sums_first(&self) -> Result<(), Violation> {
        let mut events = Vec::new();
        for (i, step) in self.steps.steps.iter().enumerate() {
            for op in [Op::Reduce, Op::Copy] {
                for send in step.doing(op).0 {
                    let Some(item) = self.shards.item(send.shard) else { continue };
                    events.push(overlap::Event { item, lo: send.lo, hi: send.hi, step: i, adds: op == Op::Reduce });
                }
            }
        }
        match overlap::early(events) {
            None => Ok(()),
            Some(overlap::Early { item, unit, step }) => {
                let name = self.shards.name(item);
                let message = format!("unit {unit} of shard {name} is copied and not added up yet");
                Err(Violation::new(Code::HopWithoutData, format!("/content/steps/{step}"), message))
            }
        }
    }

    /// Follows what these steps, of which there are some before, add up or copy.
    fn replay(
        &self,
        (op, steps, before): (Op, &[Step], usize),
        ledger: &mut Ledger<impl Fn((usize, u64)) -> u32>,
        consumes: impl Fn(usize) -> bool,
        merges: impl Fn(usize) -> bool,
    ) -> Result<(), Violation> {
        let nodes = self.fabric.topology.nodes();
        let adds = op == Op::Reduce;
        // What came in the step before to nodes that cannot store.
        let mut fleeting: Vec<(usize, u64)> = Vec::new();
        for (i, step) in (before..).zip(steps) {
            let (sends, key) = step.doing(op);
            let at = |j: usize| format!("/content/steps/{i}/{key}/{j}");
            for (j, send) in sends.iter().enumerate() {
                let Some((Ends { from, .. }, item)) = self.sent(*send) else { continue };
                let (lo, hi) = (send.lo, send.hi);
                if let Some(unit) = ledger.missing((from, item), lo, hi) {
                    let name = self.shards.name(item);
                    let message = format!("{} does not have unit {unit} of shard {name} then", self.fabric.id(from));
                    return Err(Violation::new(Code::HopWithoutData, at(j), message));
                }
                if consumes(from) {
                    ledger.take((from, item), lo, hi);
                }
            }
            for place in fleeting.drain(..) {
                if (adds || !nodes[place.0].can.copy) && !ledger.holds(place, 0) {
                    let message = format!("{} cannot store what came in the step before", self.fabric.id(place.0));
                    return Err(Violation::new(Code::HopUnbalanced, format!("/content/steps/{i}"), message));
                }
                ledger.clear(place);
            }
            for send in sends {
                let Some((Ends { to, .. }, item)) = self.sent(*send) else { continue };
                ledger.give((to, item), send.lo, send.hi, merges(to));
                if !nodes[to].can.store {
                    fleeting.push((to, item));
                }
            }
            if ledger.is_tired() {
                let message = "parts so small that following them all would take too long";
                return Err(Violation::new(Code::TooFine, format!("/content/steps/{i}"), message));
            }
        }
        Ok(())
    }
}
