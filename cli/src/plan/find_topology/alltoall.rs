//! How long an all-to-all takes at least on the graphs of a frontier.

use sluice_planners::Run;
use sluice_planners::direct::finder::Workload;

use super::result::Point;
use crate::failure::Failure;

/// Fills in the time at the best rate that was proved, for every graph that can be built.
#[cfg(feature = "lp")]
pub fn times(points: &mut [Point], workload: &Workload, run: &Run) -> Result<(), Failure> {
    use sluice_formats::problem::{Problem, Problems};
    use sluice_planners::Progress;
    use sluice_planners_lp::alltoall::{Options, Refusal, throughput};

    let Some(scale) = workload.size.checked_div(&workload.bandwidth) else { return Ok(()) };
    for point in points.iter_mut().filter(|point| point.constructible) {
        let candidate = &point.candidate;
        let refused = |refusal: Refusal| {
            Problems::from(
                Problem::new(refusal.code(), "--all-to-all", refusal.to_string()).found(candidate.expr.to_string()),
            )
        };
        let watch = |progress: Progress<'_>| {
            let about = format_args!("{}, {}", candidate.expr, progress.about);
            (run.watch)(Progress { about, ..progress });
        };
        let run = Run { watch: &watch, ..*run };
        let graph = candidate.expr.graph().map_err(|refusal| refused(refusal.into()))?;
        let found = throughput(&graph, None, &Options::default(), &run).map_err(refused)?;
        point.alltoall_us = Some(found.time(candidate.n, candidate.d) * scale.to_f64() * 1e6);
    }
    Ok(())
}

/// Says that this program cannot.
#[cfg(not(feature = "lp"))]
pub fn times(_: &mut [Point], _: &Workload, _: &Run) -> Result<(), Failure> {
    use sluice_formats::problem::{E_RANGE, Problem, Problems};

    let error = Problem::new(E_RANGE, "--all-to-all", "this sluice was built without the solver");
    Err(Problems::from(error.allowed("a build with the feature `lp`, as `cargo build -p sluice` makes")).into())
}
