//! The limit as a layer: looks at each line before it is written, and says now and then how many were left out.
//!
//! One thread, `log-limits`, which sleeps until something was left out and ends with the process. Lines below `info` are not
//! counted: who asks for them wants them all.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::event::Event;
use crate::limit::{Left, Limiter};

/// The limit of one process's lines.
#[derive(Clone, Debug)]
pub struct Limits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    began: Instant,
    limiter: Mutex<Limiter>,
    left_out: Condvar,
}

impl Limits {
    /// Limits from now on.
    pub fn new() -> Limits {
        let (limiter, left_out) = (Mutex::default(), Condvar::new());
        Limits(Arc::new(Shared { began: Instant::now(), limiter, left_out }))
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.0.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Starts the thread that says what was left out. Without it lines are limited all the same.
    pub(crate) fn speak(&self) {
        let limits = self.clone();
        drop(std::thread::Builder::new().name("log-limits".into()).spawn(move || {
            loop {
                tell(limits.next());
            }
        }));
    }

    /// Says what was left out, if anything was: at the end of a process.
    pub(crate) fn finish(&self) {
        // The lock must be free when the line is written: it passes here too.
        let left = self.limiter().take();
        if let Some(left) = left {
            tell(left);
        }
    }

    /// Waits until something was left out and its time has come.
    fn next(&self) -> Left {
        let mut limiter = self.limiter();
        loop {
            let Some(due) = limiter.due() else {
                limiter = self.0.left_out.wait(limiter).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let pause = due.saturating_sub(self.now());
            if pause.is_zero()
                && let Some(left) = limiter.take()
            {
                return left;
            }
            let waited = self.0.left_out.wait_timeout(limiter, pause.max(Duration::from_millis(1)));
            limiter = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::new()
    }
}

fn tell(left: Left) {
    let mut of = String::new();
    for (event, count) in &left.of {
        let comma = if of.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _ = write!(of, "{comma}{count} {event}");
    }
    tracing::info!(event = "suppressed", count = left.count, of, "{} more suppressed", left.count);
}

impl<S: Subscriber> Layer<S> for Limits {
    fn event_enabled(&self, event: &tracing::Event<'_>, _: Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::INFO {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let known = Event::of(&line.event);
        if known.is_some_and(Event::is_beyond_limits) {
            return true;
        }
        let name = if line.event.is_empty() { event.metadata().target() } else { &line.event };
        let cause = (!known.is_some_and(Event::is_told_each_time)).then(|| {
            name.hash(&mut line.cause);
            event.metadata().line().hash(&mut line.cause);
            line.cause.finish()
        });
        let mut limiter = self.limiter();
        let admitted = limiter.admit(self.now(), name, cause);
        drop(limiter);
        if !admitted {
            self.0.left_out.notify_one();
        }
        admitted
    }
}

/// What a line is about and why: its words. Numbers, and what only explains, make no other cause.
#[derive(Default)]
struct Line {
    event: String,
    cause: DefaultHasher,
}

impl Line {
    fn take(&mut self, field: &Field, text: &str) {
        match field.name() {
            "event" => text.clone_into(&mut self.event),
            // A flow's number is no cause of its own: a thousand flows may be given back for one.
            "message" | "cost" | "next" | "flow" | "backtrace" => {}
            name => (name, text).hash(&mut self.cause),
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value);
    }
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() != "message" {
            self.take(field, &format!("{value:?}"));
        }
    }
    fn record_i64(&mut self, _: &Field, _: i64) {}
    fn record_u64(&mut self, _: &Field, _: u64) {}
    fn record_f64(&mut self, _: &Field, _: f64) {}
    fn record_bool(&mut self, _: &Field, _: bool) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Keeps the messages of all lines that pass.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            struct Message<'a>(&'a mut Vec<String>);
            impl Visit for Message<'_> {
                fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                    if field.name() == "message" {
                        self.0.push(format!("{value:?}"));
                    }
                }
            }
            event.record(&mut Message(&mut self.0.lock().expect("no panic")));
        }
    }

    #[test]
    fn words_make_causes_and_numbers_do_not_and_what_people_do_is_told_each_time() {
        let (limits, kept) = (Limits::new(), Kept::default());
        let subscriber = tracing_subscriber::registry().with(limits.clone()).with(kept.clone());
        tracing::subscriber::with_default(subscriber, || {
            for (n, job) in ["a", "b", "a"].into_iter().enumerate() {
                tracing::info!(event = "job-begin", job, n, "job {job} {n}");
                tracing::info!(event = "mode-changed", "mode {n}");
                tracing::debug!(event = "not-captured", "detail");
            }
            for n in 0..200 {
                tracing::info!(event = "flow-released", flow = %n, why = ?"gone", "flow {n}");
            }
            limits.finish();
        });
        let kept = kept.0.lock().expect("no panic");
        let of = |prefix: &str| kept.iter().filter(|line| line.starts_with(prefix)).collect::<Vec<_>>();
        assert_eq!(of("job"), ["job a 0", "job b 1"]);
        assert_eq!((of("mode").len(), of("detail").len(), of("flow").len()), (3, 3, 1));
        assert_eq!(of("200"), ["200 more suppressed"]);
    }

    #[test]
    fn what_was_left_out_is_told_when_its_time_comes_though_no_line_follows() {
        let limits = Limits::new();
        let first = limits.limiter().admit(Duration::ZERO, "a", Some(1));
        let second = limits.limiter().admit(Duration::ZERO, "a", Some(1));
        assert!(first && !second);
        // Its time has come: as if ten seconds had passed since this process began.
        let shared = Shared {
            began: Instant::now() - Duration::from_secs(20),
            limiter: Mutex::default(),
            left_out: Condvar::new(),
        };
        std::mem::swap(&mut *shared.limiter.lock().expect("no panic"), &mut *limits.limiter());
        assert_eq!(Limits(Arc::new(shared)).next().count, 1);
    }
}
