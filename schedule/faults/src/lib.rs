//! Deterministic simulation: the shipping brains of hosts and holders in virtual time, one thread, one seed.
//!
//! A seed decides a cluster, its limits, its jobs and its faults: loss, copies, delay, reordering, one-way cuts and closed
//! connections; daemons and holders that die, hang, are slow, end in order or come back in another version; clocks that step,
//! drift or stand still; jobs that come, die, lie or send in bursts; rows of the kernel's table that change hands; redrawn paths.
//! Invariants are checked at every step. In [`Mode::Safety`] everything is healed in the end and the cluster must come to rest;
//! in [`Mode::Liveness`] a core is healed while the rest stays broken in a fixed way, and the core must get on.
//!
//! What goes wrong is recorded as a list ([`Case`]), which can be run again, cut down ([`shrink`]) and kept. Defects can be planted
//! ([`Mutant`]), each of which its invariants must notice.
//!
//! | module | is |
//! | --- | --- |
//! | `options` | what a seed decides |
//! | `plan` | the list of what goes wrong |
//! | `case`, `valid` | options and list as a file, what it may say, and how to run it again |
//! | `shrink` | cuts a list down to what is needed |
//! | `situations` | what runs should come to |
//! | `mutant` | defects that can be planted, and what each breaks |
//! | `kernel`, `rows` | orders with expiry, fluid sharing of links, the table of flows |
//! | `actors` | daemons, holders and their clocks |
//! | `setup` | the cluster and its jobs |
//! | `world`, `queue` | events and decisions |
//! | `post`, `dial` | messages and the network, connections |
//! | `life`, `breaking` | births and deaths, what goes wrong |
//! | `routes` | equal paths, and who says which a flow takes |
//! | `checks`, `tables`, `calm`, `heal` | the invariants |

#![forbid(unsafe_code)]
#![deny(clippy::iter_over_hash_type)]

mod actors;
mod breaking;
mod calm;
mod case;
mod checks;
mod dial;
mod heal;
mod kernel;
mod life;
mod mutant;
mod options;
mod plan;
mod post;
mod queue;
mod report;
mod rng;
mod routes;
mod rows;
mod setup;
mod shrink;
mod situations;
mod tables;
mod valid;
mod world;

pub use case::{BadCase, Case};
pub use checks::Violation;
pub use mutant::Mutant;
pub use options::{Amounts, Broken, Core, JobOptions, Lasting, Limits, Mode, Network, Options, Shape};
pub use report::{Promised, Report};
pub use shrink::{Shrunk, shrink};
pub use situations::{SITUATIONS, Seen, Situation};

/// What became of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was counted up to its end.
    pub report: Report,
    /// The first broken invariant, which ended it.
    pub violation: Option<Violation>,
    faults: plan::Faults,
}

impl Outcome {
    /// What went wrong, as a list that can be run again.
    pub fn case(&self, options: Options) -> Case {
        Case {
            options,
            faults: self.faults.clone(),
            broke: self.violation.as_ref().map(|violation| violation.invariant),
        }
    }
}

/// Runs one seed.
pub fn run(options: &Options, mutant: Option<Mutant>) -> Outcome {
    world::World::new(options.clone(), None, mutant).run()
}
