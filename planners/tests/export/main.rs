//! Exporters on plans that ForestColl makes, and the interpreter as judge of every program.

mod damaged;
mod formats;
mod programs;
mod properties;
mod scene;
