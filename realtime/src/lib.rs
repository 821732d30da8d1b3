//! A thread of ours in the kernel's real-time class (`SCHED_RR`, the lowest priority), for as long as it takes little.
//!
//! Who decides late leaves bandwidth idle, and training hosts are busy hosts: an ordinary thread waits there for its turn. A
//! real-time one does not, so it must not run long. Two bounds see to that ([`Bound`]): the kernel counts the time
//! without a sleep and ends it by a signal, even where the thread would never look; the thread itself adds up its share of a
//! core. Past either it is an ordinary thread with its nice value, and asks again after a second, or later if that happens
//! time and again ([`Backoff`]).
//!
//! Threads and processes that it starts are ordinary ones (`SCHED_RESET_ON_FORK`). Where the kernel refuses, the thread
//! works on at its nice value, and says why ([`Refusal`]).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod budget;
mod kernel;

use std::marker::PhantomData;

use sluice_schedule::Nanos;

use budget::Window;
pub use budget::{Backoff, Bound};
pub use kernel::Refusal;

/// What was refused is asked for again after this time.
pub const AGAIN: Nanos = Nanos::from_millis(60_000);
/// The nice value of a thread that is not real-time, where it may be had.
const NICE: libc::c_int = -10;

/// How a thread stands with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nobody wants it otherwise.
    #[default]
    Ordinary,
    /// In the real-time class.
    Realtime,
    /// An ordinary thread, since the kernel wants it so.
    Refused(Refusal),
    /// An ordinary thread for a while, since it took too much.
    Overran(Overrun),
}

/// What was too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overrun {
    /// It did not sleep.
    #[error("it ran for {} ms without a sleep", bound.0 / 1_000_000)]
    Slice {
        /// The time that was too long.
        bound: Nanos,
    },
    /// It took too much in all.
    #[error("it took {percent} % of a core for a second; {bound} % may be")]
    Share {
        /// What it took.
        percent: u64,
        /// What it may take.
        bound: u64,
    },
}

/// The calling thread's place in the real-time class. One thread of a process can have one.
#[derive(Debug)]
pub struct Realtime {
    bound: Bound,
    standing: Standing,
    /// Before that it is not asked for again.
    not_before: Nanos,
    backoff: Backoff,
    window: Window,
    /// It is about the thread that made it.
    _here: PhantomData<*const ()>,
}

impl Realtime {
    /// An ordinary thread, which is preferred as far as nice values go; refusal of those is no error.
    pub fn new(bound: Bound) -> Realtime {
        prefer();
        Realtime {
            bound,
            standing: Standing::Ordinary,
            not_before: Nanos::ZERO,
            backoff: Backoff::default(),
            window: Window::default(),
            _here: PhantomData,
        }
    }

    /// To be called often: asks for the class if it is `wanted` and it is time, and judges what the thread took; `mono`
    /// and `cpu` are the time and the thread's processor time.
    pub fn look(&mut self, wanted: bool, mono: Nanos, cpu: Nanos) -> Standing {
        match self.standing {
            Standing::Realtime if kernel::overran() => {
                self.overran(mono, Overrun::Slice { bound: self.bound.slice });
            }
            Standing::Realtime if !wanted => self.end(Standing::Ordinary),
            Standing::Realtime => {
                if let Some(percent) = self.window.over(mono, cpu, &self.bound) {
                    let bound = self.bound.percent;
                    self.overran(mono, Overrun::Share { percent, bound });
                }
            }
            _ if !wanted => self.standing = Standing::Ordinary,
            Standing::Refused(_) | Standing::Overran(_) if mono < self.not_before => {}
            _ => self.begin(mono),
        }
        self.standing
    }

    /// An ordinary thread until the next look: before work that can wait and takes long.
    pub fn pause(&mut self) {
        if self.standing == Standing::Realtime && !kernel::overran() {
            self.end(Standing::Ordinary);
        }
    }

    fn begin(&mut self, mono: Nanos) {
        self.window = Window::default();
        self.not_before = mono.plus(AGAIN);
        self.standing = kernel::take(self.bound.slice).map_or_else(Standing::Refused, |()| Standing::Realtime);
    }

    fn overran(&mut self, mono: Nanos, what: Overrun) {
        self.not_before = self.backoff.begin(mono);
        self.end(Standing::Overran(what));
    }

    fn end(&mut self, standing: Standing) {
        kernel::give_back();
        self.standing = standing;
    }
}

impl Drop for Realtime {
    fn drop(&mut self) {
        if self.standing == Standing::Realtime {
            kernel::give_back();
        }
    }
}

#[allow(unsafe_code)]
fn prefer() {
    // SAFETY: plain integers; 0 names the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

#[cfg(test)]
mod tests;
