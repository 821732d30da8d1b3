//! The library before nodes of PS-Lite: a double's, and MXNet's own.

mod mxnet;
mod preload;
#[path = "../../../progress/tests/support/rights.rs"]
mod rights;
mod secure;
#[path = "../support/mod.rs"]
mod support;
