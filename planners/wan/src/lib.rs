//! Wide-area allocation: rates, weights and orders for collectives whose flows wait for one another on fixed routes.
//!
//! Several collectives share links between sites. Each is a set of chains of flows: a flow starts when the one before it
//! in its chain has delivered its last byte. The methods here say at which rate, with which weight or in which order the
//! flows run; the headline figure is the mean over the collectives of the time at which each is done. What needs a solver of
//! conic or integer programs is not in this crate.
//!
//! Problem and static methods: Wang, Craps and Li, "Optimizing Wide-Area Collective Communication via Flow-Dependency-Aware
//! Rate Allocation", with its open points settled as the modules say; what runs without reservations is this project's own.
//!
//! Sizes are in MB (10⁶ bytes), rates and capacities in MB/s, times in s.
//!
//! | module | is |
//! | --- | --- |
//! | [`instance`], [`form`] | what is asked, checked; its form in JSON |
//! | [`graph`], [`routes`], [`ring`], [`random`], [`generate`] | from a Topology Zoo graph and a seed to an instance |
//! | [`simulate`], [`rules`] | what happens when flows run, event by event; who gets what at an instant |
//! | [`plan`], [`schedule`] | what a method hands over, and how it is executed |
//! | [`baseline`] | static rates that do not know what waits for what |
//! | [`weights`], [`sca`], [`reserve`] | weights of groups, their iteration, and what rates reserve |
//! | [`reciprocal`], [`multiring`] | budgets of collectives, and orders inside them |
//! | [`greedy`] | one flow at a time on a link |
//! | [`perm`], [`chain_order`] | strict priority: orders of collectives, orders of flows |
//! | [`portfolio`] | the best of all of them, by simulation |
//! | [`method`] | all of them by name, with a place for a solver; the portfolio of a command |
//! | [`bound`] | what no plan goes below, as rows with prices |
//! | [`from_topology`], [`import`] | from a topology and a file of flows to an instance; from the form `wan` to both |
//! | [`to_plan`] | from a method's plan to a plan file that the checker accepts |
//! | [`sweep`], [`timeline`] | methods on generated instances, as a page; flows over time, as a picture |
//! | [`refusal`] | what is refused, with the names of the method's page |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]

pub mod baseline;
pub mod bound;
pub mod chain_order;
mod drawing;
pub mod form;
pub mod from_topology;
pub mod generate;
pub mod graph;
pub mod greedy;
pub mod import;
pub mod instance;
mod layout;
pub mod method;
pub mod multiring;
pub mod perm;
pub mod plan;
pub mod portfolio;
pub mod random;
pub mod reciprocal;
pub mod refusal;
pub mod reserve;
pub mod ring;
pub mod routes;
pub mod rules;
pub mod sca;
pub mod schedule;
pub mod simulate;
pub mod sweep;
pub mod timeline;
pub mod to_plan;
pub mod weights;

pub use instance::{Flow, Group, Instance, Link, Segment};
pub use refusal::{Fault, Refusal};
