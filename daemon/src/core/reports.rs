//! What others may see of the deciding loop: the snapshot, the shell, and the exchange.

use std::sync::{Arc, Mutex};

use sluice_ebpf::Datapath;
use sluice_schedule::host::Host;
use sluice_schedule::{JobId, Nanos, Now};
use sluice_wire::snapshot::Counters;
use sluice_wire::timeline::Timeline;

use super::account::LinkUse;
use super::holders::Holders;
use super::{ClockState, Core};
use crate::conditions::Conditions;
use crate::config::{Config, Loaded, Mode};
use crate::monitor::Monitor;
use crate::monitor::traffic::Traffic;

macro_rules! shown {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(pub fn $name(&self) -> &$type { &self.$name })*
    };
}

impl Core {
    shown! {
        config: Config,
        loaded: Loaded,
        host: Host,
        monitor: Monitor,
        conditions: Conditions,
        counters: Counters,
        holders: Holders,
        traffic: Traffic,
        link_use: [LinkUse],
        clock: ClockState,
    }
    /// The data path, for waiting on its wake-up.
    pub fn datapath(&self) -> &dyn Datapath {
        &*self.datapath
    }
    /// The ring of decisions, shared with whoever shows it.
    pub fn timeline(&self) -> Arc<Mutex<Timeline>> {
        self.timeline.clone()
    }
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// When the earlier mode returns, CLOCK_MONOTONIC; `None`: it does not.
    pub fn mode_ends(&self) -> Option<Nanos> {
        self.mode_returns.map(|(_, at)| at)
    }
    /// When orders were last written.
    pub fn renewed(&self) -> Option<Nanos> {
        self.renewed
    }
    /// Is this job left alone: given back by command, slower with Sluice, or in a window in which nothing is paced?
    pub fn is_spared(&self, job: JobId) -> bool {
        self.spared.contains(&job) || self.helped.leaves(job)
    }
    /// The time of the last turn.
    pub fn now(&self) -> Now {
        self.now
    }
}
