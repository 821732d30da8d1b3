//! Fluid programs that a solver of linear programs solves. What they speak of is in `sluice_planners::fluid`.
//!
//! | module | is |
//! | --- | --- |
//! | [`master`] | Dantzig and Wolfe's method over whole routes, mirrored where there is symmetry |
//! | [`pricing`] | the cheapest way of a job at a master's prices |
//! | `block` | one block of a program by links |
//! | `finishing` | from a master's floats to fractions |
//! | [`solve`] | the whole way: method, figures, routes |
//! | [`timed`] | programs with a time axis: the shortest steps of a fluid or of whole pieces |
//! | [`relaxed`] | the program without time, by links: where nodes that cannot copy are balanced, or taken apart |

mod block;
mod draft;
mod finishing;
pub mod master;
pub mod pricing;
pub mod relaxed;
pub mod solve;
pub mod stage;
pub mod timed;

use sluice_planners::fluid::refusal::Refusal;
use sluice_solver::Failed;

fn failed(failed: Failed) -> Refusal {
    Refusal::Solver { status: failed.status }
}
