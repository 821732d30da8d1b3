//! Snapshots as text. The content is what scripts must not parse and people rely on; nothing is computed here that the
//! snapshot could say.

mod explain;
mod status;
mod tables;
mod why;

pub use explain::{clock, explain};
pub use status::{header, status};
pub use tables::{flows, job, jobs, links, schedule, switches};
pub use why::why;
