//! A progress bar over simulations: jobs that have ended, events per second, virtual time, and the time that is left.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluice_simulate::runs::{Running, Task};

/// On a terminal a bar on stderr, elsewhere nothing.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    /// By task: what it is called, its jobs, and whether it is over.
    tasks: Vec<(String, u64, bool)>,
    seen: (Instant, u64),
    rate: f64,
}

impl Bar {
    /// For these tasks; `shown` false draws nothing.
    pub fn new(tasks: &[Task<'_>], shown: bool) -> Bar {
        let target = if shown { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
        let tasks: Vec<(String, u64, bool)> =
            tasks.iter().map(|t| (t.policy.to_string(), t.scenario.jobs.len() as u64, false)).collect();
        let bar = ProgressBar::with_draw_target(Some(tasks.iter().map(|t| t.1).sum()), target);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3}% {elapsed} left {eta}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Bar { bar, tasks, seen: (Instant::now(), 0), rate: 0.0 }
    }

    /// How far the running tasks are.
    pub fn look(&mut self, running: &[Running]) {
        let over: u64 = self.tasks.iter().filter(|t| t.2).map(|t| t.1).sum();
        // A search begins anew with every order; the bar never goes back.
        let position = over + running.iter().map(|r| r.ended).sum::<u64>();
        self.bar.set_position(position.max(self.bar.position()));
        let events: u64 = running.iter().map(|r| r.events).sum();
        let (since, before) = self.seen;
        let seconds = since.elapsed().as_secs_f64();
        if seconds >= 0.5 {
            self.rate = events.saturating_sub(before) as f64 / seconds;
            self.seen = (Instant::now(), events);
        }
        let names: Vec<&str> =
            running.iter().filter_map(|r| self.tasks.get(r.task)).map(|t| t.0.as_str()).take(3).collect();
        let now = running.iter().map(|r| r.now.as_secs_f64()).fold(0.0, f64::max);
        self.bar.set_message(format!("{}: {:.0} k events/s, {now:.0} s virtual", names.join(", "), self.rate / 1e3));
    }

    pub fn over(&mut self, task: usize) {
        if let Some(entry) = self.tasks.get_mut(task) {
            entry.2 = true;
        }
        let over: u64 = self.tasks.iter().filter(|t| t.2).map(|t| t.1).sum();
        self.bar.set_position(over.max(self.bar.position()));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
