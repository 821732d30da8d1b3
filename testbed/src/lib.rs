//! A fabric of network namespaces, training-job workloads on real TCP, experiments and reports.
//!
//! | module | is |
//! | --- | --- |
//! | [`fabric`] | a network out of namespaces, veth pairs and token buckets |
//! | [`job`] | one rank of a training job: real float buffers over real sockets, checked in every iteration |
//! | [`cross`] | cross traffic: elastic flows of ordinary TCP |

#![deny(unsafe_code)]

pub mod cross;
pub mod fabric;
pub mod job;
#[allow(unsafe_code)]
pub mod sys;
