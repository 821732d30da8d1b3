//! HTTP: health, metrics, the status API, and the few commands an operator may give.
//!
//! The same routes answer on TCP (GET only, loopback unless opened) and on the Unix socket, where commands are taken
//! from uid 0, the daemon's own user and members of `control.group`. Everything shown is a rendering of one
//! [`Snapshot`]; what a command does is behind [`Control`], which the daemon's core implements.
//!
//! Tasks: one per listener, one per connection; all end when the future given to [`serve()`] does, and none holds
//! anything that outlives it.

pub(crate) mod api;
pub(crate) mod exposition;
mod guard;
mod noted;
pub(crate) mod places;
pub(crate) mod serve;
mod stream;
mod turned;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sluice_schedule::FlowId;
use sluice_wire::audit::{Audit, Entry};
use sluice_wire::snapshot::{Command, Explanation, Outcome, Refused, Snapshot};
use sluice_wire::timeline::Timeline;
use tokio::sync::watch;

pub use guard::Rules;
pub use serve::{Listeners, bind_unix, serve};
pub use turned::{Lack, TurnedAway};

/// What HTTP needs of the daemon. Calls may block for a moment; they run outside the asynchronous threads.
pub trait Control: Send + Sync + 'static {
    fn snapshot(&self) -> Arc<Snapshot>;
    /// The snapshots as they are published, which is more often after [`Control::snapshot`].
    fn published(&self) -> watch::Receiver<Arc<Snapshot>>;
    /// Since the slot loop last moved; `None` before the first slot.
    fn loop_age(&self) -> Option<Duration>;
    fn timeline(&self) -> Timeline;
    /// Why a flow has its rate.
    fn explain(&self, flow: FlowId) -> Option<Explanation>;
    /// Where the flight record is; `None`: there is none.
    fn flight(&self) -> Option<PathBuf> {
        None
    }
    /// The effective configuration, secrets masked.
    fn config(&self) -> Value;
    /// Carries out a command.
    ///
    /// # Errors
    /// [`Refused`] with every problem of a configuration that was not taken.
    fn command(&self, command: Command) -> Result<Outcome, Refused>;
    /// Notes that a command was given, and what came of it. Does not wait for a disk.
    fn note(&self, entry: Entry);
    /// The last so many commands.
    fn audit(&self, last: usize) -> Audit;
    /// Counts somebody who was turned away.
    fn turned_away(&self, lack: Lack);
}

/// The slot loop is alive if it moved within this many slots, or [`ALIVE_WITHIN`], whichever is longer.
const ALIVE_SLOTS: u32 = 10;
const ALIVE_WITHIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
