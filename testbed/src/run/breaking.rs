//! The faults of a scenario, done to real processes while a run goes on: `kill -9` and a new start of a daemon or a switch, a
//! node's management cable taken away, a daemon's clock set wrong.
//!
//! Only what schedules is hit, never a job: no job may notice more than that rates are not the best.

use std::collections::{BTreeMap, BTreeSet};

use sluice_scenario::{Fault, FaultKind};
use sluice_schedule::Nanos;

use nix::sys::signal::Signal;

use super::daemons::Daemons;
use super::{Policy, RunError, RunPlan};
use crate::fabric::Fabric;

/// The faults of a run, of which each begins and most end.
pub(super) struct Breaking<'a> {
    plan: &'a RunPlan,
    fabric: &'a Fabric,
    /// When which fault begins (false) or is over (true), the last one first.
    coming: Vec<(Nanos, usize, bool)>,
    /// How many partitions a node is in.
    cut: BTreeMap<usize, usize>,
    /// Daemons that stand still.
    stopped: BTreeSet<usize>,
    /// Faults that came again, and how often.
    again: BTreeMap<String, usize>,
    /// Daemons that were started again and have not yet said that they are ready, and since when.
    waiting: Vec<(usize, Nanos)>,
    notes: Vec<String>,
}

impl<'a> Breaking<'a> {
    /// The faults of a plan; none where no daemon runs.
    ///
    /// # Errors
    /// Names a fault of a switch where no switch keeps a table.
    pub(super) fn new(plan: &'a RunPlan, fabric: &'a Fabric, policy: &Policy) -> Result<Breaking<'a>, RunError> {
        let mut breaking = Breaking {
            plan,
            fabric,
            coming: Vec::new(),
            cut: BTreeMap::new(),
            stopped: BTreeSet::new(),
            again: BTreeMap::new(),
            waiting: Vec::new(),
            notes: Vec::new(),
        };
        let Policy::Sluice { nic, .. } = policy else {
            if !plan.faults.is_empty() {
                breaking.notes.push(format!("the faults hit what schedules: under {policy} there is nothing to break"));
            }
            return Ok(breaking);
        };
        for (at, fault) in plan.faults.iter().enumerate() {
            if *nic && fault.target.0 >= fabric.hosts.len() {
                let what = breaking.name_of(fault);
                return Err(RunError::Plan(format!("{what}: no switch keeps a table under {policy}")));
            }
            breaking.coming.push((fault.at, at, false));
            let ends = fault.lasts.or((fault.kind == FaultKind::SwitchRestart).then_some(Nanos::ZERO));
            breaking.coming.extend(ends.map(|lasts| (fault.at.plus(lasts), at, true)));
        }
        // At one time a fault begins before it ends, and what stands first in the file comes first.
        breaking.coming.sort_by_key(|&(at, fault, over)| std::cmp::Reverse((at, over, fault)));
        Ok(breaking)
    }

    /// When the next one begins or ends.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.coming.last().map(|(at, ..)| *at)
    }

    /// Does what is due at `at`, the time since the run began.
    ///
    /// # Errors
    /// When the system refuses, or a daemon does not come back.
    pub(super) fn look(&mut self, at: Nanos, daemons: &mut Daemons) -> Result<(), RunError> {
        while self.next().is_some_and(|due| due <= at) {
            if let Some((_, fault, over)) = self.coming.pop() {
                let plan = self.plan;
                if let Some(fault) = plan.faults.get(fault) {
                    self.strike(at, fault, over, daemons)?;
                }
            }
        }
        let notes = &mut self.notes;
        self.waiting.retain(|&(host, since)| {
            let ready = daemons.is_ready(host);
            if ready {
                let name = &self.fabric.hosts[host].name;
                let took = at.minus(since).as_secs_f64();
                notes.push(format!(
                    "{:.1} s: the daemon of {name} is ready, {took:.1} s after its start",
                    at.as_secs_f64()
                ));
            }
            !ready
        });
        Ok(())
    }

    /// What happened, for the report; at the end of a run, when daemons that stand still have to go on so that they can end.
    pub(super) fn end(mut self, daemons: Option<&Daemons>) -> Vec<String> {
        if let Some(daemons) = daemons {
            self.stopped.iter().for_each(|host| daemons.signal(*host, Signal::SIGCONT));
        }
        let again = std::mem::take(&mut self.again);
        self.notes.extend(again.into_iter().map(|(what, times)| format!("{what} came {times} more times")));
        let first = |at: usize| self.plan.faults.get(at).is_some_and(|fault| fault.before == 0);
        let all = (0..self.plan.faults.len()).filter(|at| first(*at)).count();
        let missed = self.coming.iter().filter(|&&(_, at, over)| !over && first(at)).count();
        if missed > 0 {
            self.notes.push(format!("{missed} of {all} faults would have come after the end"));
        }
        let late = self.waiting.iter().map(|(host, _)| &self.fabric.hosts[*host].name);
        let late: Vec<String> =
            late.map(|name| format!("the daemon of {name} was not ready again at the end")).collect();
        self.notes.extend(late);
        self.notes
    }

    fn strike(&mut self, at: Nanos, fault: &Fault, over: bool, daemons: &mut Daemons) -> Result<(), RunError> {
        let node = fault.target.0;
        let switch = node.checked_sub(self.fabric.hosts.len());
        match (fault.kind, switch, over) {
            (FaultKind::DaemonKill, None, false) => {
                self.waiting.retain(|(host, _)| *host != node);
                daemons.kill(node);
            }
            (FaultKind::DaemonKill, None, true) => {
                daemons.start_again(self.fabric, node)?;
                self.waiting.push((node, at));
            }
            (FaultKind::DaemonStop, None, _) => {
                daemons.signal(node, if over { Signal::SIGCONT } else { Signal::SIGSTOP });
                if over {
                    self.stopped.remove(&node)
                } else {
                    self.stopped.insert(node)
                };
            }
            (FaultKind::SwitchRestart, Some(switch), false) => daemons.kill_switch(switch),
            (FaultKind::SwitchRestart, Some(switch), true) => daemons.start_switch_again(self.fabric, switch)?,
            (FaultKind::Partition, _, _) => {
                let cut = self.cut.entry(node).or_default();
                *cut = if over { cut.saturating_sub(1) } else { *cut + 1 };
                if *cut == usize::from(!over) {
                    self.fabric.set_link(self.name(node), "mgmt0", over)?;
                }
            }
            (FaultKind::ClockSkew, None, _) => {
                let slot_ms = self.plan.slot.0 as f64 / 1e6;
                daemons.set_clock(node, if over { 0.0 } else { slot_ms * fault.slots })?;
            }
            _ => return Err(RunError::Plan(format!("{} cannot be had on the testbed", self.name_of(fault)))),
        }
        // One that comes again and again is told of once.
        let what = self.name_of(fault);
        match (fault.before, over) {
            (0, _) => {
                let when = if over { "over" } else { "begins" };
                self.notes.push(format!("{:.1} s: {what} {when}", at.as_secs_f64()));
            }
            (_, false) => *self.again.entry(what).or_default() += 1,
            (_, true) => {}
        }
        Ok(())
    }

    fn name(&self, node: usize) -> &str {
        self.fabric.layout.nodes.get(node).map_or("?", String::as_str)
    }

    fn name_of(&self, fault: &Fault) -> String {
        format!("{} of {}", fault.kind.as_str(), self.name(fault.target.0))
    }
}
