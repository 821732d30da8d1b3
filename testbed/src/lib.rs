//! A fabric of network namespaces, training-job workloads on real TCP, and experiments on it.
//!
//! | module | is |
//! | --- | --- |
//! | [`chaos`] | faults, load and exhaustion, each with a figure against a bar |
//! | [`fabric`] | a network out of namespaces, veth pairs and token buckets |
//! | [`job`] | one rank of a training job: real float buffers over real sockets, checked in every iteration |
//! | `cross` | cross traffic: elastic flows of ordinary TCP |
//! | [`run`] | runs a workload under policies on a fabric and collects figures |
//! | [`experiment`] | small measured experiments |
//! | [`standing`] | a network that stands until it is taken down |

#![deny(unsafe_code)]

pub mod chaos;
mod cross;
pub mod experiment;
pub mod fabric;
pub mod job;
pub mod run;
pub mod standing;
#[allow(unsafe_code)]
mod sys;
