//! Exporters on plans that ForestColl and TE-CCL make, and the interpreter as judge of every program.

mod damaged;
mod formats;
mod programs;
mod properties;
mod scene;
mod sends;
