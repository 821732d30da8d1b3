//! Wide-area allocation without a solver: conformance vectors, properties against naive references, generated workloads.

mod common;
mod properties;
mod rules;
mod sweep;
mod vectors;
mod workloads;
