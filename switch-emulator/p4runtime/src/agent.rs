//! The guard agent: keeps a switch's tables filled, and tells its guard the slot shortly before each slot begins.
//!
//! One loop, no task of its own. It connects, waits until it is primary, loads the program unless it is there, and
//! then does three things side by side until one of them ends: it writes slots, it fills and watches the tables, and it
//! listens for the end of its primacy. Whatever ends them, it begins again after a pause. Time comes from a [`Clock`];
//! every random number, from the operating system.
//!
//! A switch that does not hear from its agent refuses all Sluice packets two slots later, and hosts do without it. So
//! the agent never waits longer than a slot for one write, and never for anything else before it writes the next one.

use std::sync::Arc;
use std::time::Duration;

use sluice_pipeline::control::Statement;
use sluice_schedule::clock::SlotClock;
use sluice_schedule::{Nanos, Slot};
use tokio::time::Instant;

use crate::agent::backoff::{Backoff, random};
use crate::agent::fill::{Plan, plan};
use crate::client::counts::Counts;
use crate::client::error::{ClientError, NextStep};
use crate::client::program::Program;
use crate::client::{Session, Standing, Target};

mod backoff;
mod fill;

/// Writes of one slot after the other that were not answered in time, until the connection is given up.
const MOST_LATE: u32 = 3;
/// The longest time by which controllers that see nobody primary differ in when they stand.
const JITTER: Duration = Duration::from_millis(50);
/// The shortest wait between two looks at the clock.
const SHORTEST: Duration = Duration::from_millis(1);

/// The clock that slots are counted on.
pub trait Clock: Send + Sync {
    /// Time since the epoch of the slot grid.
    fn now(&self) -> Nanos;
}

impl<F: Fn() -> Nanos + Send + Sync> Clock for F {
    fn now(&self) -> Nanos {
        self()
    }
}

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The switch.
    pub target: Target,
    /// Higher than that of other agents if this one is to be primary; each agent of a switch needs another one.
    pub election: u128,
    /// What the switch is to run.
    pub program: Arc<Program>,
    /// What its tables are to hold. Of a link's signature the lower 20 bits are kept, the others drawn; a guard's slot and a restart are
    /// left out.
    pub tables: Vec<Statement>,
    /// The length of a slot.
    pub slot_length: Nanos,
    /// How long before its beginning a slot is written; at most half a slot counts. By then hosts must not announce in
    /// the slot before the present one any more.
    pub lead: Nanos,
    /// How often counters are read, and the tables looked at.
    pub poll: Duration,
}

/// What an agent tells.
#[derive(Debug)]
pub enum News {
    /// It waits: another controller is primary, or nobody is yet.
    Waits {
        /// The highest election id that the switch has seen.
        highest: Option<u128>,
    },
    /// It is primary.
    Primary,
    /// The tables are as they are to be.
    Filled {
        /// The switch had no link of ours: it has begun anew, and links have new signatures.
        restarted: bool,
        /// Entries that were written.
        written: usize,
        /// Entries that were taken out.
        removed: usize,
    },
    /// The guard has this slot.
    Slot(Slot),
    /// The guard was told this slot and has not answered within a slot's length.
    Late(Slot),
    /// What the switch counted so far.
    Counted(Counts),
    /// Counters or tables could not be read this time.
    Unread(ClientError),
    /// The session is over; another one begins after a pause.
    Lost {
        /// Why.
        error: ClientError,
        /// How long the pause is.
        pause: Duration,
    },
}

/// Runs until `stop` completes. `tell` must not wait.
///
/// # Errors
/// What no further try can change: [`NextStep::Correct`].
pub async fn run(
    settings: Settings,
    clock: impl Clock,
    tell: impl Fn(News) + Send + Sync,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ClientError> {
    let mut stop = std::pin::pin!(stop);
    let agent = Agent { settings, clock, tell };
    let mut backoff = Backoff::default();
    loop {
        let error = tokio::select! {
            () = &mut stop => return Ok(()),
            error = agent.session(&mut backoff) => error,
        };
        if error.next_step() == NextStep::Correct {
            return Err(error);
        }
        let pause = backoff.next(random());
        (agent.tell)(News::Lost { error, pause });
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Agent<C, T> {
    settings: Settings,
    clock: C,
    tell: T,
}

impl<C: Clock, T: Fn(News) + Send + Sync> Agent<C, T> {
    /// One session, from the connection to its end.
    async fn session(&self, backoff: &mut Backoff) -> ClientError {
        match self.begin().await {
            Ok(session) => tokio::select! {
                error = session.lost() => error,
                error = self.keep_slots(&session, backoff) => error,
                error = self.keep_tables(&session) => error,
            },
            Err(error) => error,
        }
    }

    /// A session that is primary at a switch that has the program.
    async fn begin(&self) -> Result<Session, ClientError> {
        let Settings { target, election, program, .. } = &self.settings;
        let mut session = Session::open(target.clone(), *election, program.clone()).await?;
        self.become_primary(&mut session).await?;
        (self.tell)(News::Primary);
        session.ensure_program().await?;
        Ok(session)
    }

    async fn become_primary(&self, session: &mut Session) -> Result<(), ClientError> {
        let mut standing = session.standing();
        loop {
            standing = match standing {
                Standing::Primary => return Ok(()),
                Standing::Ended { .. } => return Err(session.lost_by(standing)),
                Standing::Vacant { highest } => {
                    (self.tell)(News::Waits { highest });
                    self.stand(session, highest).await?
                }
                Standing::Backup { highest } => {
                    (self.tell)(News::Waits { highest });
                    session.changed().await
                }
                Standing::Unknown => session.changed().await,
            };
        }
    }

    /// Nobody is primary: whoever asks with an id beyond the highest will be. Two that ask with the same one are told
    /// apart by who came first.
    async fn stand(&self, session: &mut Session, highest: Option<u128>) -> Result<Standing, ClientError> {
        tokio::time::sleep(part(JITTER, random())).await;
        if !matches!(session.standing(), Standing::Vacant { .. }) {
            return Ok(session.standing());
        }
        let beyond = highest.map_or(0, |highest| highest.saturating_add(1));
        session.stand(beyond.max(session.election())).await?;
        let limit = self.settings.target.deadlines.call;
        let answer = tokio::time::timeout(limit, session.changed()).await;
        answer.map_err(|_| ClientError::Silent { uri: self.settings.target.uri.clone(), call: "arbitration", limit })
    }

    /// Tells the guard every slot until that fails.
    async fn keep_slots(&self, session: &Session, backoff: &mut Backoff) -> ClientError {
        let length = Nanos(self.settings.slot_length.0.max(1));
        let lead = Nanos(self.settings.lead.0.min(length.0 / 2));
        let limit = Duration::from_nanos(length.0);
        let mut grid = SlotClock::new(length);
        let began = Instant::now();
        let (mut written, mut late) = (None, 0);
        loop {
            let wall = self.clock.now();
            let mono = Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let slot = grid.read(mono, wall).slot;
            let (slot, wait) = due(slot, grid.until_edge(wall), lead, length);
            if written == Some(slot) {
                tokio::time::sleep(Duration::from_nanos(wait.0).clamp(SHORTEST, limit.max(SHORTEST))).await;
                continue;
            }
            match session.set_slot(slot, limit).await {
                Ok(()) => {
                    (written, late) = (Some(slot), 0);
                    backoff.reset();
                    (self.tell)(News::Slot(slot));
                }
                Err(ClientError::Silent { .. }) if late < MOST_LATE => {
                    late += 1;
                    (self.tell)(News::Late(slot));
                }
                Err(error) => return error,
            }
        }
    }

    /// Fills the tables, then reads counters and looks whether the tables are still there, until they are not.
    async fn keep_tables(&self, session: &Session) -> ClientError {
        if let Err(error) = self.fill(session).await {
            return error;
        }
        loop {
            tokio::time::sleep(self.settings.poll.max(SHORTEST)).await;
            match self.look(session).await {
                Ok(counts) => (self.tell)(News::Counted(counts)),
                Err(error) => match error.next_step() {
                    // A session that is over ends by its stream; an answer that was late will come another time.
                    NextStep::Reconnect => (self.tell)(News::Unread(error)),
                    NextStep::StandBy | NextStep::Refill | NextStep::Correct => return error,
                },
            }
        }
    }

    async fn fill(&self, session: &Session) -> Result<(), ClientError> {
        let found = session.entries().await?;
        let mut draw = || random() as u32;
        let Plan { restarted, stale, statements } = plan(&self.settings.tables, &found, session.ids(), &mut draw);
        session.remove(&stale).await?;
        session.put(&statements).await?;
        (self.tell)(News::Filled { restarted, written: statements.len(), removed: stale.len() });
        Ok(())
    }

    async fn look(&self, session: &Session) -> Result<Counts, ClientError> {
        let forgotten = |what| ClientError::Forgotten { uri: self.settings.target.uri.clone(), what };
        if !session.has_program().await? {
            return Err(forgotten("its program"));
        }
        let linked = session.linked().await?;
        let is_gone = |statement: &Statement| match statement {
            Statement::Link(port, _) => !linked.contains(port),
            _ => false,
        };
        if self.settings.tables.iter().any(is_gone) {
            return Err(forgotten("entries of its tables"));
        }
        session.counts().await
    }
}

/// A part of a time, by a random number.
fn part(of: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random % nanos.max(1))
}

/// Which slot the guard has to have now, and how long that is right: from `lead` before a slot begins to `lead` before
/// the next one does.
fn due(slot: Slot, until_edge: Nanos, lead: Nanos, length: Nanos) -> (Slot, Nanos) {
    if until_edge.0 <= lead.0 {
        (slot.offset(1), until_edge.plus(length).minus(lead))
    } else {
        (slot, until_edge.minus(lead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slot_is_due_shortly_before_it_begins() {
        let (length, lead) = (Nanos::from_millis(60), Nanos::from_millis(10));
        let due = |millis: u64| due(Slot(7), Nanos::from_millis(millis), lead, length);
        assert_eq!(due(60), (Slot(7), Nanos::from_millis(50)));
        assert_eq!(due(11), (Slot(7), Nanos::from_millis(1)));
        assert_eq!(due(10), (Slot(8), Nanos::from_millis(60)));
        assert_eq!(due(1), (Slot(8), Nanos::from_millis(51)));
    }

    proptest! {
        /// Whatever slot is due lets the present one in, also across the wrap, and the wait ends in another one.
        #[test]
        fn the_present_slot_is_always_let_in(now in any::<u64>(), length in 2_u64..1 << 40, lead in any::<u64>()) {
            let (length, lead) = (Nanos(length), Nanos(lead % (length / 2 + 1)));
            let present = |wall: u64| Slot((wall / length.0) as u32);
            let until_edge = |wall: u64| Nanos(length.0 - wall % length.0);
            let now = now.min(u64::MAX - 2 * length.0);
            let (slot, wait) = due(present(now), until_edge(now), lead, length);
            prop_assert!(slot.since(present(now)).unsigned_abs() <= 1);
            prop_assert!(wait.0 > 0 && wait.0 <= length.0);
            let (next, _) = due(present(now + wait.0), until_edge(now + wait.0), lead, length);
            prop_assert_eq!(next, slot.offset(1));
        }
    }
}
