//! Wide-area allocation that needs a solver: exact rates and weights, the best order of flows, a bound on all methods.
//!
//! | module | is |
//! | --- | --- |
//! | [`rate`] | constant rates of the least mean time |
//! | [`weight`] | weights of the least mean time |
//! | [`mod@nonconcurrent`] | the best schedule of flows that never share a link at the same time |
//! | [`mod@multiring`] | the best orders of collectives that have budgets |
//! | `disjunctive` | the search for an order that both use |
//! | [`bound`] | what no method goes below |
//! | [`against_teccl`] | what TE-CCL makes of the same collectives, executed alike |
//! | [`claim`] | the inequalities that prove it, for whoever checks the bound |
//! | `conic` | conic programs, as [`rate`] and [`weight`] put them |

pub mod against_teccl;
pub mod bound;
pub mod claim;
mod conic;
mod disjunctive;
pub mod multiring;
pub mod nonconcurrent;
pub mod rate;
mod refusal;
mod reserved;
mod units;
pub mod weight;

pub use bound::{Bound, lower_bound};
pub use disjunctive::search::Limits;
pub use multiring::multiring;
pub use nonconcurrent::{Nonconcurrent, nonconcurrent};
pub use rate::{Allocation, rate_alloc};
pub use refusal::Refusal;
pub use weight::{Weights, flow_link_pairs, weight_gp};
