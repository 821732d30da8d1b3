//! Fluid programs: the least time that any schedule of a collective can take on a fabric where some nodes copy, some add
//! up and some only pass on, with limits that links share; the least traffic at that time; and trees or paths that do it.
//!
//! The mathematics is that of Shapley's dissertation (Cornell, 2025) with its mistakes mended; what needs a solver of linear
//! programs is in the crate `sluice-planners-lp`, everything else here.
//!
//! | module | is |
//! | --- | --- |
//! | [`network`] | the fabric in numbers: nodes that copy or do not, links, limits |
//! | [`demand`] | a collective as blocks: data of one node for others, or of others for one |
//! | [`ends`] | collectives in which some have data for others |
//! | [`view`], [`merging`] | the fabric with nodes that cannot copy taken apart; what symmetry makes equal in it |
//! | [`symmetry`] | permutations that keep a fabric, found and verified |
//! | [`folding`] | blocks and limits that a group of permutations carries onto each other |
//! | [`tree`] | what a block does with its data: routing trees and paths, and what they load |
//! | [`closure`] | cheapest ways between nodes that copy: the arcs of trees |
//! | [`arborescence`] | the cheapest out-tree of a complete graph |
//! | [`steiner`] | the cheapest routing tree, with or without a proof that it is |
//! | [`price`] | the cheapest route of a block at given prices |
//! | [`exact`], [`finish`] | from floats to fractions: numbers that look like some, and small programs solved exactly |
//! | [`timed`], [`rounds`] | a fabric step by step; whole pieces step by step, and their plans |
//! | [`instance`], [`to_plan`] | what is asked; from a mixture of routes to a plan |
//! | [`unroll`], [`stepped`] | from fluid to synchronised steps; a plan of them |
//! | [`refusal`] | what is refused, with the names of the method's page |

pub mod arborescence;
pub mod closure;
pub mod demand;
pub mod ends;
pub mod exact;
pub mod finish;
pub mod folding;
pub mod instance;
pub mod merging;
pub mod network;
pub mod price;
pub mod refusal;
pub mod rounds;
pub mod steiner;
pub mod stepped;
pub mod symmetry;
pub mod timed;
pub mod to_plan;
pub mod tree;
pub mod unroll;
pub mod view;
mod ways;

#[cfg(test)]
mod testing;
