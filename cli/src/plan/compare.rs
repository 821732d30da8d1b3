//! `sluice plan compare`: plans side by side, with a ring beside them.

mod result;

use std::process::ExitCode;

use sluice_formats::problem::Problems;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::compare::Comparison;
use sluice_plan::export::topology_of;
use sluice_plan::plan::{MAX_BYTES, Plan};
use sluice_planners::{Request, ring};

use super::args::CompareArgs;
use super::files;
use super::made::{bytes, flags};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use result::Shown;

/// What the ring is called among the plans.
const RING: &str = "ring";

pub fn run(global: &Global, args: &CompareArgs) -> Result<ExitCode, Failure> {
    let sizes = args.sizes.iter().map(|size| bytes(size.trim(), "--sizes")).collect::<Result<Vec<Rational>, _>>()?;
    let read = |path: &std::path::PathBuf| {
        let file = files::name(path);
        let plan = Plan::read(&files::read(path, MAX_BYTES as u64)?, &file)?;
        Ok((file, plan))
    };
    let plans = args.plans.iter().map(read).collect::<Result<Vec<(String, Plan)>, Problems>>()?;
    let topology = match (args.fabric.read()?, plans.first()) {
        (Some(topology), _) => topology,
        (None, Some((file, plan))) => topology_of(plan).map_err(|errors| errors.in_file(file))?,
        (None, None) => return Err(Failure::failed("no plan")),
    };
    let mut comparison = Comparison::new(&topology, sizes).map_err(|errors| flags(errors, &["sizes"]))?;
    for (file, plan) in &plans {
        comparison.add(file, plan)?;
    }
    let no_ring = match plans.first().map(|(_, plan)| ring_like(plan, &topology)) {
        Some(Ok(ring)) => {
            let added = comparison.add(RING, &ring);
            comparison.rows.iter_mut().skip(plans.len()).for_each(|row| row.planner = Some(RING.into()));
            added.err()
        }
        Some(Err(errors)) => Some(errors),
        None => None,
    };
    let no_ring = no_ring.and_then(|errors| errors.all().first().map(|error| error.message.clone()));
    if let Some(why) = no_ring.as_ref().filter(|_| !global.quiet) {
        eprintln!("without a ring to compare with: {why}");
    }
    let svg = args.svg.as_deref();
    if let Some(path) = svg {
        if files::is_standard(path) {
            output::print(&comparison.picture())?;
            return Ok(ExitCode::SUCCESS);
        }
        files::write(path, &comparison.picture())?;
    }
    if !global.quiet {
        let shown = Shown::new(&comparison, no_ring, svg.map(|path| path.display().to_string()));
        output::one(global, &shown, || shown.text(&comparison, &args.sizes))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A ring that does what the plan does.
fn ring_like(plan: &Plan, topology: &Topology) -> Result<Plan, Problems> {
    let body = &plan.body;
    let ids = |list: &Vec<_>| list.iter().map(|node| plan.id(*node).to_owned()).collect::<Vec<String>>();
    let participants = body.participants.as_ref().map(ids);
    let ignore: Vec<String> = body.ignored.iter().flatten().map(|key| key.to_string()).collect();
    let root = body.root.map(|root| plan.id(root));
    let request = Request { collective: body.collective, participants: participants.as_deref(), root, ignore: &ignore };
    ring::make(topology, &request, "")
}
