//! The rate rules: what each way of executing a plan gives to the flows that are ready.
//!
//! | module | is |
//! | --- | --- |
//! | [`fixed`] | the same rate whenever a flow is ready; a flow waits for those ordered before it, or for a barrier |
//! | [`fill`] | guaranteed rates, and the rest of every link divided max-min fair |
//! | [`priority`] | all that is left of a route to the first in an order, fixed or computed anew at each event |

pub mod fill;
mod filling;
pub mod fixed;
pub mod priority;

pub use fill::Fill;
pub use fixed::{Barrier, Ordered, Static};
pub use priority::{Priority, Recomputed};
