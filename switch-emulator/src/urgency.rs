//! Keeps the thread that serves in the real-time class, within bounds, and says what becomes of it.
//!
//! One thread does everything here: announcements, tables, feedback, and beside them health and metrics, which are short.
//! The thread that asks the kernel for routes is an ordinary one. Where packets are forwarded, the thread that does so has
//! the class instead: a process can give it to one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sluice_realtime::{Bound, Realtime, Standing};
use sluice_schedule::Nanos;

use crate::metrics::Metrics;

/// A thousand hosts in half a slot stay below the first, and in all below the second.
const BOUND: Bound = Bound { slice: Nanos::from_millis(100), percent: 75 };
/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);

/// The standing of the thread that made it and that looks.
pub struct Urgency {
    wanted: bool,
    realtime: Realtime,
    before: Standing,
    metrics: Arc<Metrics>,
}

impl Urgency {
    /// Of the calling thread; `wanted`: it shall be real-time.
    pub fn new(wanted: bool, metrics: Arc<Metrics>) -> Urgency {
        Urgency { wanted, realtime: Realtime::new(BOUND), before: Standing::Ordinary, metrics }
    }

    /// Takes it, keeps it or gives it back, and says so where that is news.
    pub fn look(&mut self) {
        let standing = self.realtime.look(self.wanted, sluice_clock::monotonic(), sluice_clock::thread_cpu());
        if standing != self.before {
            say(standing);
            self.metrics.stands(standing);
            self.before = standing;
        }
    }
}

/// Runs on the thread that it is about, for as long as that serves; `wanted`: it shall be real-time.
pub async fn keep(wanted: bool, metrics: Arc<Metrics>) -> Infallible {
    let mut urgency = Urgency::new(wanted, metrics);
    loop {
        urgency.look();
        tokio::time::sleep(EVERY).await;
    }
}

fn say(standing: Standing) {
    match standing {
        Standing::Realtime => tracing::info!(event = "realtime", "serves in a real-time thread"),
        Standing::Ordinary => tracing::info!(event = "realtime", "serves in an ordinary thread"),
        Standing::Refused(why) => tracing::info!(
            event = "realtime-refused",
            cost = "where other programs keep the processors busy, hosts wait for answers",
            next = "give the service LimitRTPRIO=1, or write realtime = false",
            "serves in an ordinary thread: {why}"
        ),
        Standing::Overran(how) => tracing::info!(
            event = "realtime-overrun",
            cost = "for a second, or up to a minute if it comes again, it waits for its turn as other programs do",
            next = "fewer hosts for each process, if it comes again",
            "serves in an ordinary thread: {how}"
        ),
    }
}
