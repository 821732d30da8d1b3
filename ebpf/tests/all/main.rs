//! The kernel side on real TCP between network namespaces. Needs root.

mod common;
mod dead_man;
mod draws;
mod ends;
mod follows;
mod guards;
mod holder;
mod hook;
mod loss;
mod policy;
mod prebuilt;
mod pretend;
mod scripted;
mod sequence;
mod surplus;
mod torn;
mod verifier;
