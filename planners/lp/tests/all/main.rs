//! What the solver plans: all-to-all rates, chunks of TE-CCL, fluid programs.

mod alltoall;
mod fluid;
mod teccl;
mod wan;
