//! The planners: which trees, schedules and rates a collective should use on a given fabric.
//!
//! | module | is |
//! | --- | --- |
//! | [`forestcoll`] | throughput-optimal trees, with the cut that proves them |
//! | [`direct`] | graphs without switches: families, the finder, breadth-first schedules in steps |

pub mod direct;
pub mod forestcoll;
mod ignorable;

pub use ignorable::IGNORABLE;
