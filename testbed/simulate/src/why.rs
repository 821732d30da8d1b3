//! Does `sluice why` find the cause? A job runs twice in virtual time, undisturbed and with one cause injected, and the records
//! that its hosts would have written are asked what is more in the second run. The cause that was injected must be the
//! largest part of it.
//!
//! The engine moves bytes as a fluid and knows no sockets: what a kernel would count of one (idle, shut window, queue) follows
//! from what holds the fluid's flow, with noise (`watching`). How real kernels count is tried on the testbed.
//!
//! | module | is |
//! | --- | --- |
//! | `draw` | what is run: a scenario and a cause, drawn |
//! | `watching` | what each host would have seen and written |
//! | `progress` | how far a flow is
//! | `judge` | whether the answer names the cause |

mod draw;
mod judge;
mod progress;
mod watching;

use sluice_attribution::Hosts;

pub use draw::{Case, Kind};
pub use judge::{Verdict, judge};

use crate::policy::build;
use crate::runs::RunsError;
use crate::{SluiceScheduler, Watch};
use watching::{Inner, Watching};

/// Runs a case undisturbed or disturbed, and gives what its hosts recorded.
///
/// # Errors
/// As a run: drawn cases stall or end early only by a fault of ours.
pub fn record(case: &Case, disturbed: bool) -> Result<Hosts, RunsError> {
    let scenario = if disturbed { &case.disturbed } else { &case.usual };
    let inner = match case.policy.name.as_str() {
        "sluice" => Inner::Sluice(Box::new(SluiceScheduler::new(scenario, &case.policy))),
        _ => Inner::Other(
            build(&case.policy, scenario)
                .map_err(|error| RunsError::Policy { policy: case.policy.to_string(), error })?,
        ),
    };
    let mut watching = Watching::new(case, disturbed, inner);
    crate::run(scenario, &mut watching, &Watch::default())
        .map_err(|error| RunsError::Sim { policy: case.policy.to_string(), error })?;
    Ok(watching.records(scenario))
}
