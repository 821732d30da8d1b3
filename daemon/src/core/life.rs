//! Mode changes, reload, giving flows back, and the last orders before the process ends.

use std::rc::Rc;

use sluice_ebpf::{Datapath, Row};
use sluice_schedule::coast::{self, Coasting};
use sluice_schedule::host::Host;
use sluice_schedule::{BootId, Event, JobId, Nanos, Now, Rate};
use sluice_wire::timeline::{EventKind, EventRecord};

use super::Core;
use crate::conditions::ConditionCode;
use crate::config::{ChangedKeys, Loaded, Mode};
use crate::fabric::Fabric;
use crate::privilege::eyes::SharedEyes;

impl Core {
    /// Looks by these eyes, for itself and for those beside it. To be said first.
    pub fn look_by(&mut self, eyes: SharedEyes, others: SharedEyes) {
        self.monitor.look_by(eyes, others);
    }

    /// Changes the mode, for ever or for a time.
    pub fn set_mode(&mut self, now: Now, mode: Mode, returns_in: Option<Nanos>) {
        let before = self.mode;
        self.mode_returns =
            returns_in.map(|time| (self.mode_returns.map_or(before, |(mode, _)| mode), now.mono.plus(time)));
        if mode == before {
            return;
        }
        tracing::info!(event = "mode-changed", from = before.word(), to = mode.word(), "the mode changed");
        if before == Mode::Active {
            self.counters.released_mode += self.release_all(None) as u64;
        }
        self.mode = mode;
        if mode == Mode::Active {
            self.spared.clear();
            self.released.clear();
        }
        // Whoever asks for a mode has looked.
        self.conditions.clear(ConditionCode::RestartLoop, "");
        let kind = EventKind::Mode(match mode {
            Mode::Observe => sluice_wire::snapshot::Mode::Observe,
            Mode::Active => sluice_wire::snapshot::Mode::Active,
            Mode::Bypass => sluice_wire::snapshot::Mode::Bypass,
        });
        let record = EventRecord { slot: now.slot, into_slot: now.into_slot, kind };
        self.timeline.lock().unwrap_or_else(std::sync::PoisonError::into_inner).event(record);
    }

    /// It was started `starts` times lately and never ended in order: it looks, says so, and touches nothing until
    /// somebody asks for a mode.
    pub fn stay_out(&mut self, now: Now, starts: usize) {
        self.set_mode(now, Mode::Bypass, None);
        let within = crate::starts::WITHIN.0 / 1_000_000_000;
        let mut text = format!("sluiced was started {starts} times within {within} s and never ended in order");
        if let Some(path) = crate::crashed::kept(&self.config.node.state_dir) {
            text += &format!("; what it was told before it died last is in {}", path.display());
        }
        self.conditions.set(now.wall.0, ConditionCode::RestartLoop, "", text);
    }

    /// Back to the earlier mode when its time has come.
    pub(super) fn return_mode(&mut self, now: Now) {
        if let Some((mode, _)) = self.mode_returns.filter(|(_, at)| now.mono >= *at) {
            self.mode_returns = None;
            let mode = self.fleet_after_time().unwrap_or(mode);
            self.set_mode(now, mode, None);
            self.judge_fleet(now);
        }
    }

    /// Gives the sockets of one job, or all, back to their earlier congestion control. Returns how many were asked.
    pub(super) fn release_all(&mut self, job: Option<JobId>) -> usize {
        let mine = |spec: &sluice_schedule::FlowSpec| job.is_none_or(|job| spec.job == job);
        let rows: Vec<_> = self
            .monitor
            .sockets
            .iter()
            .filter(|socket| match &socket.told {
                Some(spec) => mine(spec),
                None => job.is_none(),
            })
            .filter_map(|socket| socket.row)
            .collect();
        for row in &rows {
            self.datapath.release(*row);
        }
        rows.len()
    }

    /// An operator wants sockets back: those of one job, which is left alone from here on, or all that are managed.
    /// Returns how many were asked.
    pub fn drain(&mut self, job: Option<JobId>) -> usize {
        self.spared.extend(job);
        let all = self.mode == Mode::Active;
        let released = if job.is_some() || all { self.release_all(job) } else { 0 };
        self.counters.released_drain += released as u64;
        released
    }

    /// Puts another data path in place of the present one. All sockets are found anew.
    pub fn replace_datapath(&mut self, now: Now, datapath: Box<dyn Datapath>) -> Box<dyn Datapath> {
        let old = std::mem::replace(&mut self.datapath, datapath);
        let mut events = Vec::new();
        self.monitor.forget_sockets(&mut events);
        for event in events {
            self.tell(now, event);
        }
        old
    }

    /// Takes a new configuration over in one step.
    pub fn reload(&mut self, loaded: Loaded, fabric: Rc<Fabric>) -> ChangedKeys {
        let (merged, keys) = crate::config::reload(&self.config, &loaded.config);
        let mode_in_file = self.config.mode != merged.mode;
        self.config = merged;
        self.loaded = loaded;
        let mut closed = Vec::new();
        self.monitor.reconfigure(&self.config, fabric.clone(), &mut closed);
        self.give_back(closed);
        if let Some(table) = &self.own_table {
            let mut table = table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            table.carry(fabric.kept());
            table.place(fabric.places());
        }
        let brain = super::settings::brain(&self.config, &fabric, self.host.config().boot);
        if brain != *self.host.config() {
            // A new brain under a new boot id, so that holders take its first word for news.
            let boot = BootId(self.host.config().boot.0.wrapping_add(1));
            self.host = Host::new(sluice_schedule::host::HostConfig { boot, ..brain });
            let mut events = Vec::new();
            self.monitor.tell_again(&mut events);
            events.into_iter().for_each(|event| self.tell(self.now, event));
        }
        self.traffic.reconfigure(&self.config);
        self.helped.reconfigure(&self.config);
        self.record_as_configured(self.now.wall);
        self.fly_as_configured();
        self.reprobe();
        if mode_in_file {
            let mode = self.fleet_wants().unwrap_or(self.config.mode);
            self.set_mode(self.now, mode, None);
        }
        keys
    }

    /// Flows that may not be managed any more: the brain forgets them, and the kernel lets go of their sockets at once.
    fn give_back(&mut self, closed: Vec<Event>) {
        for event in closed {
            if let Event::FlowClosed(flow) = event
                && let Some(row) = self.row(flow)
            {
                tracing::info!(event = "flow-released", flow = %flow, why = "excluded", "a flow was given back");
                self.datapath.release(row);
            }
            self.tell(self.now, event);
        }
    }

    /// The last orders: every managed flow keeps the larger of its order and its equal share of the own link, all
    /// scaled down to what the link carries, until `coast_ms` from now. Returns how many flows coast.
    pub fn coast(&mut self, mono: Nanos) -> usize {
        if !self.enforces() {
            return 0;
        }
        let expires = mono.plus(Nanos::from_millis(self.config.enforce.coast_ms));
        let (mut rows, mut flows): (Vec<Row>, Vec<Coasting>) = Default::default();
        for status in self.host.flows() {
            let Some(socket) = self.ordered_socket(status.spec.flow) else { continue };
            let Some(row) = socket.row else { continue };
            let (local, remote) = (socket.tuple.local_ip(), socket.tuple.remote_ip());
            let link = self.monitor.fabric.link_between(local, remote).unwrap_or(0);
            rows.push(row);
            flows.push(Coasting { link, order: status.order });
        }
        let links: Vec<Rate> =
            self.monitor.fabric.links.iter().map(|link| link.capacity.unwrap_or(Rate::MAX)).collect();
        let rates = coast::rates(&flows, &links);
        // Lowered before others are raised, so that the sum never overshoots in between.
        let mut orders: Vec<_> = rows.into_iter().zip(&flows).zip(rates).collect();
        orders.sort_by_key(|((_, flow), rate)| *rate > flow.order);
        for ((row, _), rate) in &orders {
            self.datapath.order(*row, *rate, expires);
        }
        orders.len()
    }
}
