//! Liveness: a core is healed while the rest stays broken in a fixed way, and the core gets on.

use sluice_schedule::host::{PolicyName, ViewState};
use sluice_schedule::units::Nanos;

use crate::options::{Broken, Core};
use crate::queue::Ev;
use crate::situations::Situation;
use crate::world::World;

/// Slots in which a core that can talk is as it should be.
pub const SLOTS: u64 = 20;

impl World {
    fn core(&self) -> Core {
        self.options.core.clone().unwrap_or_else(|| Core {
            hosts: Vec::new(),
            leaves: Vec::new(),
            others: Vec::new(),
            other_leaves: Vec::new(),
        })
    }

    /// The numbers of the core's holders.
    fn core_holders(&self) -> Vec<usize> {
        let core = self.core();
        if self.options.leaves == 0 { core.hosts } else { core.leaves }
    }

    /// Hosts outside the core, and how each stays broken.
    fn broken_hosts(&self) -> Vec<(usize, Broken)> {
        let core = self.core();
        (0..self.options.hosts).filter(|host| !core.hosts.contains(host)).zip(core.others).collect()
    }

    /// Leaf switches outside the core, and how each stays broken.
    fn broken_leaves(&self) -> Vec<(usize, Broken)> {
        let core = self.core();
        (0..self.options.leaves).filter(|leaf| !core.leaves.contains(leaf)).zip(core.other_leaves).collect()
    }

    /// Does this host's daemon stay dead?
    pub fn stays_down(&self, host: usize) -> bool {
        self.calm && self.options.core.is_some() && self.broken_hosts().contains(&(host, Broken::Dead))
    }

    /// Does this leaf switch stay dead?
    pub fn leaf_stays_down(&self, holder: usize) -> bool {
        self.calm && self.options.core.is_some() && self.broken_leaves().contains(&(holder, Broken::Dead))
    }

    /// Heals the core and breaks the rest for good.
    pub fn heal_core(&mut self) {
        self.seen(Situation::CoreHealed);
        let core = self.core();
        // Which clocks are wrong is the core's business only as far as the options say.
        for daemon in &mut self.cluster.daemons {
            daemon.clock.set_right(0);
        }
        for holder in &mut self.cluster.holders {
            holder.clock.set_right(0);
        }
        for &host in &core.hosts {
            self.heal_host(host);
        }
        for &leaf in &core.leaves {
            self.heal_holder(leaf);
        }
        let (hosts, leaves) = (self.broken_hosts(), self.broken_leaves());
        for (host, how) in hosts {
            self.break_host(host, how);
        }
        for (leaf, how) in leaves {
            self.break_leaf(leaf, how);
        }
    }

    fn break_host(&mut self, host: usize, how: Broken) {
        match how {
            Broken::Dead => {
                self.seen(Situation::CoreBesideDead);
                self.crash(host);
            }
            Broken::Flapping => {
                self.seen(Situation::CoreBesideFlapping);
                self.after(self.slot, Ev::Flap(host));
            }
            Broken::Mute(ways) => {
                if ways != [true, true] {
                    self.seen(Situation::CoreBesideOneWay);
                }
                for holder in 0..self.cluster.holders.len() {
                    self.cut(host, holder, ways);
                }
                // What goes to the table that it keeps itself comes in by the way that the answers to it take.
                if let Some(own) = self.cluster.holders.iter().position(|holder| holder.within == Some(host)) {
                    for other in 0..self.cluster.daemons.len() {
                        self.cut(other, own, [ways[1], ways[0]]);
                    }
                }
            }
            Broken::Clock(slots) => {
                self.seen(Situation::CoreBesideWrongClock);
                self.cluster.daemons[host].clock.offset = slots * self.slot.0 as i64;
                self.share_clock(host);
            }
            Broken::Slow(tenths) => {
                self.cluster.daemons[host].slow = (Nanos::MAX, Nanos(self.slot.0 * tenths / 10));
            }
        }
    }

    fn break_leaf(&mut self, leaf: usize, how: Broken) {
        match how {
            Broken::Dead => self.holder_down(leaf),
            Broken::Flapping => self.after(self.slot, Ev::FlapHolder(leaf)),
            Broken::Mute(ways) => (0..self.cluster.daemons.len()).for_each(|host| self.cut(host, leaf, ways)),
            Broken::Clock(slots) => self.cluster.holders[leaf].clock.offset = slots * self.slot.0 as i64,
            Broken::Slow(tenths) => drop(self.slow_leaves.insert(leaf, Nanos(self.slot.0 * tenths / 10))),
        }
    }

    /// A daemon that keeps restarting dies, or comes back.
    pub fn flap(&mut self, host: usize) {
        let up = self.cluster.daemons[host].brain.is_some();
        if up {
            self.crash(host);
        } else {
            self.restart(host, false);
        }
        self.after(self.slot.times(if up { 2 } else { 4 }), Ev::Flap(host));
    }

    /// The same of a leaf switch.
    pub fn flap_holder(&mut self, holder: usize) {
        let up = self.cluster.holders[holder].switch.is_some();
        if up {
            self.holder_down(holder);
        } else {
            self.holder_up(holder);
        }
        self.after(self.slot.times(if up { 2 } else { 4 }), Ev::FlapHolder(holder));
    }

    /// How long after the faults the run goes on.
    pub fn core_time(&self) -> Nanos {
        match self.measures.core_ready {
            Some(ready) => ready.minus(self.calm_at).plus(self.core_patience()).plus(self.slot.times(2 * SLOTS)),
            None => self.latest_rest().plus(self.slot.times(2)),
        }
    }

    fn core_patience(&self) -> Nanos {
        self.slot.times(SLOTS).max(self.patience(0))
    }

    /// Invariant 18, in the calm: twenty slots after the core can talk again its views are fresh, and it finishes rounds.
    pub fn check_core(&mut self) {
        let Some(ready) = self.measures.core_ready else { return self.await_core() };
        let passed = self.now.minus(ready);
        if passed < self.slot.times(SLOTS) {
            return;
        }
        let holders = self.core_holders();
        let holders: Vec<_> = holders.iter().map(|&holder| self.cluster.holders[holder].id).collect();
        let old = self.core().hosts.into_iter().find_map(|host| {
            let daemon = &self.cluster.daemons[host];
            // Of two clocks that differ none is known to be wrong: one that heard of none but those outside is in doubt rightly.
            let alone = !daemon.offsets.keys().any(|holder| holders.contains(holder));
            if alone && !daemon.trust.is_trusted() {
                return None;
            }
            let brain = daemon.brain.as_ref()?;
            let mut views = brain.views().filter(|(holder, _)| holders.contains(holder));
            views.find(|(_, state)| *state != ViewState::Fresh).map(|(holder, state)| (host, holder, state))
        });
        if let Some((host, holder, state)) = old {
            return self.blame(18, format!("host {host} of the core sees {holder} as {state:?}"));
        }
        let finished = self.cluster.jobs[0].finished_healed;
        if self.measures.core_rounds.is_none() {
            self.measures.core_rounds = Some(finished);
            self.report.cores += 1;
            self.report.cores_in_time += u64::from(finished > 0);
        }
        // To the letter nothing bounds a round's time.
        let bounded = self.options.policy != PolicyName::PrimalDualLiteral;
        if bounded && finished == 0 && passed > self.core_patience() {
            self.blame(18, format!("the core's job has finished no round in {passed}"));
        }
    }

    /// Has the core's part of the network come back?
    fn await_core(&mut self) {
        let waits = |clock: &crate::actors::Clock, grid: &sluice_schedule::clock::SlotClock| {
            grid.until_edge(clock.wall(self.now)) > self.slot
        };
        let (hosts, holders) = (self.core().hosts, self.core_holders());
        let waiting = hosts.iter().any(|&host| {
            let daemon = &self.cluster.daemons[host];
            waits(&daemon.clock, &daemon.grid)
        }) || holders.iter().any(|&holder| {
            let holder = &self.cluster.holders[holder];
            waits(&holder.clock, &holder.grid)
        });
        let reached = hosts.iter().all(|&host| holders.iter().all(|&holder| self.is_connected(host, holder)));
        if !waiting && reached {
            self.measures.core_ready = Some(self.now);
        } else if self.now.minus(self.calm_at) > self.latest_rest() {
            self.blame(17, "the core cannot talk long after it was healed".into());
        }
    }

    /// At the end: rounds go on, and where the policy is fair the core's job had its share.
    pub fn check_core_end(&mut self) {
        if self.measures.core_ready.is_none() {
            return self.blame(17, "the core cannot talk long after it was healed".into());
        }
        let job = &self.cluster.jobs[0];
        let part = job.got / job.fair.max(1.0);
        let measured = job.fair > 0.0;
        let before = self.measures.core_rounds.unwrap_or(0);
        let goes_on = job.finished_healed > before;
        if self.options.policy != PolicyName::PrimalDualLiteral && !goes_on {
            return self.blame(18, format!("the core's job finished {before} rounds and no more"));
        }
        if measured {
            let least =
                self.report.least_part.entry(format!("core, {:?}", self.options.policy)).or_insert(f64::INFINITY);
            *least = least.min(part);
        }
        // Half, and half of that beside jobs that claim more than they send and keep what they are promised for a while, less the
        // reserve of 5 % that is left free.
        let bar = 0.95 * if self.measures.honest { 0.5 } else { 0.25 };
        if measured && self.options.policy == PolicyName::Fair && part < bar {
            self.blame(18, format!("the core's job got {part:.2} of its max-min share"));
        }
    }
}
