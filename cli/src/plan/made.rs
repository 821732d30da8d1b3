//! What the commands of planners have in common: a size, names of flags, the work itself, and where a plan goes.

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_formats::problem::{E_RANGE, Problem, Problems};
use sluice_formats::quantity::{self, Rational};
use sluice_formats::topology::Topology;
use sluice_plan::plan::MadeBy;
use sluice_planners::{CANCELLED, Progress, Run};

use super::args::PlanningArgs;
use super::files::{self, Part};
use super::form::FabricArgs;
#[cfg(feature = "lp")]
use super::form::Read;
use super::threads;
use super::watch::{Spent, Watch};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::output;

/// Bytes of `--size`, more than none.
pub(super) fn size(text: &str) -> Result<Rational, Problems> {
    bytes(text, "--size")
}

/// Bytes of a flag, more than none.
pub(super) fn bytes(text: &str, flag: &str) -> Result<Rational, Problems> {
    let refuse = |error: Problem| Problems::from(error.found(text));
    match quantity::size(text) {
        Ok(size) if size.is_positive() => Ok(size),
        Ok(_) => Err(refuse(Problem::new(E_RANGE, flag, "no data at all").allowed("more than 0"))),
        Err(misread) => {
            let error = Problem::new(E_RANGE, flag, format!("not {}", misread.what));
            Err(refuse(error.allowed(misread.allowed).help(misread.help)))
        }
    }
}

/// Names of parameters as flags.
pub(super) fn flags(errors: Problems, parameters: &[&str]) -> Problems {
    if errors.all().iter().all(|error| !parameters.contains(&error.key.as_str())) {
        return errors;
    }
    let flag = |error: &Problem| Problem { key: format!("--{}", error.key.replace('_', "-")), ..error.clone() };
    Problems::collect(errors.all().iter().map(flag).collect(), "").unwrap_or(errors)
}

/// Who made a plan: the command, this version and, where that is wanted, how long it took.
pub(super) fn made_by(command: String, took: Option<Duration>) -> MadeBy {
    let version = Some(env!("CARGO_PKG_VERSION").into());
    MadeBy { command: Some(command.into()), seconds: took.map(Into::into), seed: None, version }
}

/// Reads a fabric and has `work` done on it, watched and within the time there is. The time for reading counts.
pub(super) fn on_fabric<T>(
    global: &Global,
    fabric: &FabricArgs,
    args: &PlanningArgs,
    work: impl FnOnce(&Topology, &Run<'_>, &Watch) -> Result<T, Problems>,
) -> Result<(Topology, T, Spent), Failure> {
    on_read(global, args, || fabric.read(), work)
}

/// The same for planners that know what to do where only some have data for others.
#[cfg(feature = "lp")]
pub(super) fn on_fabric_with_ends<T>(
    global: &Global,
    fabric: &FabricArgs,
    args: &PlanningArgs,
    work: impl FnOnce(&Read, &Run<'_>, &Watch) -> Result<T, Problems>,
) -> Result<(Read, T, Spent), Failure> {
    on_read(global, args, || fabric.read_with_ends(), work)
}

/// The same for what is read in another way.
pub fn on_read<R, T>(
    global: &Global,
    args: &PlanningArgs,
    read: impl FnOnce() -> Result<R, Problems>,
    work: impl FnOnce(&R, &Run<'_>, &Watch) -> Result<T, Problems>,
) -> Result<(R, T, Spent), Failure> {
    let watch = Watch::new(!global.quiet);
    let deadline = args.time_limit.map(|limit| Instant::now() + limit);
    let fabric = read()?;
    // From here on an interrupt is only noted; before it, reading from a pipe must end with it.
    let cancel = interrupt::flag();
    let tell = |progress: Progress<'_>| watch.progress(progress);
    let run = Run { threads: threads(args.threads), watch: &tell, cancel, deadline };
    let done = work(&fabric, &run, &watch)?;
    if run.is_cancelled() {
        return Err(Problem::new(CANCELLED, "", "cancelled").into());
    }
    Ok((fabric, done, watch.finish()))
}

/// Where a plan was written: a file, or nowhere.
#[derive(Default)]
pub(super) struct Written(pub(super) Option<String>);

/// A plan's text on its way out, before anybody knows that the plan is right.
pub(super) enum Ready {
    /// On the disk, under another name.
    Part(Part),
    /// For the standard output, or for what is no regular file.
    Text(String),
}

/// Brings a plan's text as far as it gets without anybody seeing it.
pub(super) fn prepare(out: &Path, text: String) -> Result<Ready, Failure> {
    let part = if files::is_standard(out) { None } else { Part::write(out, &text)? };
    Ok(part.map_or(Ready::Text(text), Ready::Part))
}

impl Ready {
    /// The last step; `None` as [`deliver`] gives it.
    pub(super) fn deliver(self, out: &Path) -> Result<Option<Written>, Failure> {
        match self {
            Ready::Part(part) => part.name().map(|()| Some(Written(Some(out.display().to_string())))),
            Ready::Text(text) => deliver(Some(out), || text),
        }
    }
}

/// Writes a plan to the file that was asked for. `None`: it went to the standard output, where nothing else belongs.
pub(super) fn deliver(out: Option<&Path>, text: impl FnOnce() -> String) -> Result<Option<Written>, Failure> {
    match out {
        Some(path) if files::is_standard(path) => {
            output::print(&text())?;
            Ok(None)
        }
        Some(path) => {
            files::write(path, &text())?;
            Ok(Some(Written(Some(path.display().to_string()))))
        }
        None => Ok(Some(Written(None))),
    }
}
