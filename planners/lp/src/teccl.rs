//! TE-CCL where bounds and greedy orders do not meet: the solver decides what lies between.

mod builder;
pub mod flow;
pub mod milp;
mod model;
pub mod rounds;
