//! A progress bar over simulations: jobs that have ended, events per second, virtual time, and the time that is left.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sluice_simulate::runs::{Running, Task};

/// On a terminal a bar on stderr, elsewhere nothing.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    tasks: Vec<Entry>,
    /// When the rate was counted last, and the events until then.
    since: Instant,
    before: u64,
    rate: f64,
}

#[derive(Debug)]
struct Entry {
    name: String,
    jobs: u64,
    is_over: bool,
}

impl Bar {
    /// For these tasks; `shown` false draws nothing.
    pub fn new(tasks: &[Task<'_>], shown: bool) -> Bar {
        let target = if shown { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
        let entry = |task: &Task<'_>| {
            let (name, jobs) = (task.policy.to_string(), task.scenario.jobs.len() as u64);
            Entry { name, jobs, is_over: false }
        };
        let tasks: Vec<Entry> = tasks.iter().map(entry).collect();
        let bar = ProgressBar::with_draw_target(Some(tasks.iter().map(|task| task.jobs).sum()), target);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3}% {elapsed} left {eta}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Bar { bar, tasks, since: Instant::now(), before: 0, rate: 0.0 }
    }

    /// How far the running tasks are.
    pub fn look(&mut self, running: &[Running]) {
        self.advance(running.iter().map(|r| r.ended).sum());
        let events: u64 = running.iter().map(|r| r.events).sum();
        let seconds = self.since.elapsed().as_secs_f64();
        if seconds >= 0.5 {
            self.rate = events.saturating_sub(self.before) as f64 / seconds;
            (self.since, self.before) = (Instant::now(), events);
        }
        let tasks = running.iter().filter_map(|r| self.tasks.get(r.task));
        let names: Vec<&str> = tasks.map(|task| task.name.as_str()).take(3).collect();
        let now = running.iter().map(|r| r.now.as_secs_f64()).fold(0.0, f64::max);
        self.bar.set_message(format!("{}: {:.0} k events/s, {now:.0} s virtual", names.join(", "), self.rate / 1e3));
    }

    pub fn over(&mut self, task: usize) {
        if let Some(entry) = self.tasks.get_mut(task) {
            entry.is_over = true;
        }
        self.advance(0);
    }

    /// To the jobs of all tasks that are over and so many of running ones. A search begins anew with every order; the bar
    /// never goes back.
    fn advance(&self, ended: u64) {
        let over: u64 = self.tasks.iter().filter(|task| task.is_over).map(|task| task.jobs).sum();
        self.bar.set_position((over + ended).max(self.bar.position()));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
