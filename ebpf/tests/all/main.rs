//! The kernel side on real TCP between network namespaces. Needs root.

mod common;
mod dead_man;
mod follows;
mod guards;
mod loss;
mod policy;
mod prebuilt;
mod sequence;
mod surplus;
