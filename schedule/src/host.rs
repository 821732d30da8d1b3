//! The brain of a host: demands, progress and feedback in, orders and announcements out.

use crate::event::{Action, Event, Now};
use crate::units::{BootId, HostId, Nanos, Rate};

/// What a host's brain is told at start; the daemon fills it from `sluiced.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// This host.
    pub host: HostId,
    /// Of this process.
    pub boot: BootId,
    /// Slot length.
    pub slot: Nanos,
    /// Slots ahead (K).
    pub horizon: usize,
    /// The rule.
    pub policy: PolicyName,
    /// κ: a round older than κ(1+D)m is promoted.
    pub promote_kappa: f64,
    /// φ: part of the equal share every flow keeps.
    pub fair_floor: f64,
    /// w: slots one unit of price is worth (`primal-dual`).
    pub delay_weight: f64,
    /// μ of the exponential price.
    pub price_mu: f64,
    /// Gain over the best delivered rate.
    pub probe_gain: f64,
    /// Slots of history behind it.
    pub history_slots: usize,
    /// React inside a slot.
    pub events: bool,
    /// Fill what nobody uses.
    pub work_conserving: bool,
    /// Floor of every flow with demand.
    pub floor: Rate,
    /// Floor as part of the path's bottleneck.
    pub floor_ratio: f64,
    /// Largest step up per slot after adoption and while a view is not fresh.
    pub max_step_up: f64,
    /// A round is never deferred longer than this.
    pub max_wait: Nanos,
    /// Slots a view is held before it decays.
    pub stale_slots: u32,
    /// Part of own links left free.
    pub reserve: f64,
}

/// The rules there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyName {
    /// Least remaining round first, promoted when old.
    #[default]
    SrptP,
    /// The paper's Algorithms 1 and 2, with our repairs (event-driven, work-conserving, own-flow cut).
    PrimalDual,
    /// The paper's Algorithms 1 and 2 to the letter.
    PrimalDualLiteral,
    /// Equal share per job and link.
    Fair,
}

/// The brain of a host.
#[derive(Debug)]
pub struct Host {}

impl Host {
    /// A brain that knows nothing yet.
    pub fn new(_config: HostConfig) -> Host {
        Host {}
    }
    /// Takes one event in. Cheap: nothing is decided before [`Host::decide`].
    pub fn handle(&mut self, _now: Now, _event: Event) {}
    /// Decides for all flows at once and appends what follows to `actions`. Call it after each batch of events.
    pub fn decide(&mut self, _now: Now, _actions: &mut Vec<Action>) {}
}
