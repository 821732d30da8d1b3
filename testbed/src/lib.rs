//! A fabric of network namespaces, training-job workloads on real TCP, experiments and reports.
//!
//! | module | is |
//! | --- | --- |
//! | [`fabric`] | a network out of namespaces, veth pairs and token buckets |
//! | [`job`] | one rank of a training job: real float buffers over real sockets, checked in every iteration |
//! | [`cross`] | cross traffic: elastic flows of ordinary TCP |
//! | [`sim`] | the same workload in virtual time, under every scheduler |
//! | [`run`] | runs a workload under policies on a fabric and collects figures |
//! | [`scenario`] | the scenario file: read, checked, every job drawn |
//! | [`workload`] | who arrives, who gets which hosts, which flows a round has |
//! | [`report`] | results as JSON, table, picture and page |
//! | [`experiment`] | small measured experiments |

#![deny(unsafe_code)]

pub mod cross;
pub mod experiment;
pub mod fabric;
pub mod job;
pub mod report;
pub mod run;
pub mod scenario;
pub mod sim;
#[allow(unsafe_code)]
pub mod sys;
pub mod workload;
