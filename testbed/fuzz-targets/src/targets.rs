//! All targets, by their numbers. Those up to F24 are the parsers that stood in the plan of what is verified; what came later
//! follows.

pub mod cases;
pub mod certificates;
pub mod fleet;
pub mod frames;
pub mod grpc;
pub mod kernel;
pub mod libraries;
pub mod network;
pub mod pages;
pub mod plans;
pub mod privileges;
pub mod processes;
pub mod records;
pub mod settings;
pub mod topologies;
pub mod traces;
pub mod values;

use crate::Target;

static ALL: &[&Target] = &[
    &grpc::GRPC,
    &frames::UDP,
    &network::P4RUNTIME,
    &pages::PAGES,
    &kernel::RECORDS,
    &topologies::TOPOLOGY,
    &settings::SETTINGS,
    &topologies::GRAPHML,
    &plans::PLANS,
    &plans::PROGRAMS,
    &traces::TRACES,
    &values::VALUES,
    &values::RATIONALS,
    &values::LABELS,
    &processes::PROC,
    &kernel::NETLINK,
    &kernel::BTF,
    #[cfg(not(test))]
    &libraries::pslite::PSLITE,
    &libraries::nccl::NCCL,
    &libraries::page::PAGE_API,
    &privileges::HELPER,
    &frames::IN_BAND,
    &records::STATE,
    &frames::PROGRAM,
    &network::SFLOW,
    &network::GNMI,
    &fleet::ANSWERS,
    &fleet::VALUES,
    &records::FLIGHT,
    &records::DECISIONS,
    &records::AUDIT,
    &traces::TIMELINES,
    &settings::SCENARIOS,
    &topologies::IMPORTS,
    &processes::HOPS,
    &frames::TABLES,
    &certificates::CERTIFICATES,
    &cases::CASES,
];

/// Every target, in the order of their numbers.
pub fn all() -> impl Iterator<Item = &'static Target> {
    ALL.iter().copied()
}
