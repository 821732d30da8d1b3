//! What there is to plan: a network and flows, from two files or from one in the form `wan`.

use sluice_formats::problem::{E_KEY, E_MISSING, Problem, Problems};
use sluice_formats::topology::Topology;
use sluice_plan::plan::{Flows, MAX_FLOWS_BYTES};
use sluice_planners::{Run, Stopped};
use sluice_planners_wan::from_topology::{Task, Wanted};
use sluice_planners_wan::refusal::Refusal;

use crate::plan::args::WanSourceArgs;
use crate::plan::files;
use crate::plan::form;

/// A network and the flows over it.
#[derive(Debug)]
pub struct Source {
    pub topology: Topology,
    /// The topology's name in messages.
    pub file: String,
    pub wanted: Wanted,
}

/// Reads both.
///
/// # Errors
/// Files that cannot be read, all that is wrong with them, and files too many or too few.
pub fn read(args: &WanSourceArgs) -> Result<Source, Problems> {
    let missing = |flag: &str, message: &str, allowed: &str| {
        Problems::from(Problem::new(E_MISSING, flag, message).allowed(allowed))
    };
    let Some(path) = &args.topology else {
        return Err(missing("--topology", "no network to plan on", "a file"));
    };
    let form::Read { topology, flows, .. } = form::read_all(path, args.form, &args.forms)?;
    let wanted = match (flows, &args.flows) {
        (Some(wanted), None) => wanted,
        (None, Some(path)) => {
            let file = files::name(path);
            let bytes = files::read(path, MAX_FLOWS_BYTES as u64).map_err(form::too_large)?;
            let (flows, names) = Flows::read(&bytes, &file)?;
            Wanted { flows, names, file }
        }
        (Some(_), Some(_)) => {
            let error = Problem::new(E_KEY, "--flows", "the form `wan` has flows of its own");
            return Err(error.allowed("nothing, with --form wan").into());
        }
        (None, None) => {
            let help = "a file as in docs/planning.md, or a network with its flows in --form wan";
            return Err(missing("--flows", "no flows to plan", help));
        }
    };
    Ok(Source { topology, file: files::name(path), wanted })
}

/// What is refused: with its place in the file, or why the work ended early.
pub fn refused(task: &Task<'_>, refusal: &Refusal, run: &Run<'_>) -> Problems {
    match refusal {
        Refusal::Stopped => run.check().err().unwrap_or(Stopped::Cancelled).problem().into(),
        other => task.refused(other),
    }
}
