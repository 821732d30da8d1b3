//! Flows that each hold every link of their route from start to end: which order of them is best?
//!
//! Times of flows are given; two flows that share a link never overlap. What is to be least is the sum, over owners,
//! of the instant at which the last flow of an owner ends. The integer program of section 6 asks just that; here its
//! order bits are branched on directly, and what follows from a bit is worked out by combinatorial arguments instead
//! of a relaxation with big constants. Where HiGHS takes a second, on two rings of three nodes, this takes
//! milliseconds.
//!
//! | module | is |
//! | --- | --- |
//! | [`jobs`] | flows with their times, links and dependencies |
//! | `order` | what is known on a branch: who precedes whom, earliest starts, ways to the end; and the way back |
//! | `settle` | what follows from it |
//! | `edges` | who must come after a set of others, on one link |
//! | `tree` | branching |
//! | `lists` | list schedules, as first solutions |
//! | `parts` | searching anew a part of a solution |
//! | [`search`] | the whole way |

mod bits;
mod edges;
pub mod jobs;
mod lists;
mod order;
mod parts;
pub mod search;
mod settle;
mod tree;
