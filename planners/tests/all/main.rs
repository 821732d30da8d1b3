//! The planners from outside: trees, graphs and step schedules against published figures and judges of their own, what
//! plans cost, and what they are exported to.

mod bfb;
#[path = "../../../plan/tests/common/fabrics.rs"]
mod common;
mod cost;
mod export;
mod forestcoll;
mod graphs;
