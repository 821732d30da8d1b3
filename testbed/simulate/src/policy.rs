//! The schedulers that Sluice is compared with, by name (`simulation.md` section 7).
//!
//! | name | is | speaks by |
//! | --- | --- | --- |
//! | `fair` | equal shares, as ideal TCP | nothing, or caps by loss |
//! | [`static_order`] | a given order of jobs | class |
//! | `mcs` | stages under one central order | cap |
//! | `ccml` | shifts per host, or unequal weights | hold, weight |
//! | `cassini` | one shift per job for the whole network | hold |
//! | `mltcp` | aggressiveness by progress | weight |
//! | `sincronia` | primal–dual order of coflows | class |
//! | `varys` | shortest bottleneck first, one pace per coflow | cap |
//! | `oracle` | the rule of `sluice`, known everywhere at once | cap |
//! | `aalo` | queues by bytes sent | class, weight |
//! | `echelonflow` | least lateness | cap |
//! | `crux` | GPU intensity first | class, path |
//! | [`bound`] | what none of them can beat; no schedule | |
//!
//! What several of them use are functions over small plain structs: `ports` and `meeting` (who meets whom),
//! `primal_dual` and `madd` (order and pace of coflows), `circle`, `affinity` and `grid` (shifts).

mod aalo;
mod affinity;
pub mod bound;
mod bursts;
mod cassini;
mod ccml;
mod circle;
mod crux;
mod echelonflow;
mod fair;
#[cfg(test)]
mod fluid;
mod grid;
mod madd;
mod mcs;
mod meeting;
mod mltcp;
mod oracle;
mod ports;
mod primal_dual;
mod sincronia;
pub mod static_order;
mod under_way;
mod varys;

use sluice_scenario::{Policy, Scenario};
use thiserror::Error;

use super::scheduler::Scheduler;

/// Why there is no such scheduler to run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// It is no baseline.
    #[error(
        "{0} is no baseline scheduler of the simulator; the baselines are fair, static, mcs, ccml, cassini, mltcp, sincronia, varys, oracle, aalo, echelonflow, crux"
    )]
    NoBaseline(String),
    /// It cannot be run.
    #[error("bound is a lower bound and no schedule: run another scheduler, its result names the bound")]
    Bound,
    /// An option that the simulator does not have.
    #[error("{option} = {value} is not available; use {instead}")]
    Option {
        /// The key of the option.
        option: &'static str,
        /// What was asked for.
        value: String,
        /// What to use instead.
        instead: &'static str,
    },
}

/// The baseline of this name with the scenario's options.
///
/// # Errors
/// For `sluice` (which is no baseline), `bound` (which is no schedule) and options that are not there.
pub fn build(policy: &Policy, scenario: &Scenario) -> Result<Box<dyn Scheduler>, PolicyError> {
    let options = &scenario.schedulers.options;
    Ok(match policy.name.as_str() {
        "fair" if policy.variant.as_deref() == Some("mltcp") => {
            let instead = "\"mltcp\", the same rule over ideal shares";
            return Err(PolicyError::Option { option: "scheduler", value: "\"fair:mltcp\"".into(), instead });
        }
        "fair" => Box::new(fair::Fair::new(scenario)),
        "static" => Box::new(static_order::StaticOrder::of(scenario)),
        "mcs" if options.mcs_lp => {
            let instead = "\"primal-dual\", which solves the same relaxation without a solver";
            return Err(PolicyError::Option { option: "scheduler.mcs.order", value: "\"lp\"".into(), instead });
        }
        "mcs" => Box::new(mcs::Mcs::new(scenario)),
        "ccml" if options.ccml_unfair => Box::new(ccml::Unfair::new(scenario)),
        "ccml" => Box::new(ccml::Interleave::new(scenario)),
        "cassini" if scenario.placement.candidates > 1 => {
            let value = scenario.placement.candidates.to_string();
            return Err(PolicyError::Option {
                option: "placement.candidates",
                value,
                instead: "1: one placement per job",
            });
        }
        "cassini" => Box::new(cassini::Cassini::new(scenario)),
        "mltcp" => Box::new(mltcp::Mltcp::new(scenario)),
        "sincronia" => Box::new(sincronia::sincronia(scenario)),
        "varys" => Box::new(varys::varys(scenario)),
        "oracle" => Box::new(oracle::Oracle::new(scenario)),
        "aalo" => Box::new(aalo::aalo(scenario)),
        "echelonflow" => Box::new(echelonflow::echelonflow(scenario)),
        "crux" => Box::new(crux::Crux::new(scenario)),
        "bound" => return Err(PolicyError::Bound),
        _ => return Err(PolicyError::NoBaseline(policy.to_string())),
    })
}
