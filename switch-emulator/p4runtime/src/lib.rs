//! The control plane of a P4 switch that runs `switch-emulator/p4/sluice.p4`, over P4Runtime (gRPC).
//!
//! A switch that runs the program has no clock and starts with empty tables. Somebody has to load the program, fill its
//! tables, tell its guard the slot in every slot, and do it all again when the switch has restarted. That is
//! [`agent`], by way of [`client`].
//!
//! | module | is |
//! | --- | --- |
//! | [`pb`] | the messages and stubs generated from `proto/`: P4Runtime as far as it is needed, by its own numbers |
//! | [`ids`] | names of the program to the numbers that a switch knows them by, out of its P4Info |
//! | [`info`] | the P4Info of the program, for a switch that was given no other |
//! | [`encode`] | statements of `sluice_pipeline::control` as entries of tables, and back |
//! | [`client`] | a controller's session with a switch |
//! | [`agent`] | the loop that keeps a switch's tables filled and its guard in time |
//! | [`mock`] | a P4Runtime server in front of the twin |
//! | [`limits`] | every bound on what is taken from the network |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::unreachable))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod agent;
pub mod client;
pub mod encode;
pub mod ids;
pub mod info;
pub mod limits;
pub mod mock;
mod names;

/// Messages, clients and servers generated from `proto/`.
#[allow(missing_docs, clippy::all)]
pub mod pb {
    pub mod google {
        pub mod rpc {
            tonic::include_proto!("google.rpc");
        }
    }
    pub mod p4 {
        pub mod v1 {
            tonic::include_proto!("p4.v1");
        }
        pub mod config {
            pub mod v1 {
                tonic::include_proto!("p4.config.v1");
            }
        }
    }
}

/// A number of 128 bits as P4Runtime writes it.
fn halves(number: u128) -> pb::p4::v1::Uint128 {
    pb::p4::v1::Uint128 { high: (number >> 64) as u64, low: number as u64 }
}

/// The number that [`halves`] was given.
fn whole(halves: pb::p4::v1::Uint128) -> u128 {
    u128::from(halves.high) << 64 | u128::from(halves.low)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_number_survives_its_halves() {
        for number in [0, 1, u128::from(u64::MAX), 1 << 64, u128::MAX] {
            assert_eq!(super::whole(super::halves(number)), number);
        }
    }
}
