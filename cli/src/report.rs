//! `sluice report`: results of earlier runs on one page, which asks nothing of anybody.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args as ClapArgs;
use serde_json::json;
use sluice_formats::problem::hint;
use sluice_report::compared;
use sluice_report::simulated::compare::compare;
use sluice_wire::snapshot::SCHEMA;

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::plan::files;
use crate::sim::sides;

/// What `sluice report` understands.
#[derive(Clone, Debug, ClapArgs)]
pub struct ReportArgs {
    /// Files that `sluice sim run --out` wrote, or what --json of `sluice sim run` and `sluice testbed run` printed, of one
    /// scenario and seed; and last the page to write, which ends in .html
    #[arg(required = true, num_args = 2.., value_name = "RUN… FILE.html")]
    pub files: Vec<PathBuf>,
    /// Title of the page; none: the scenario's name
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// The scheduler that others are held against; none: the first
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Show it in the browser (xdg-open)
    #[arg(long)]
    pub open: bool,
}

pub fn run(global: &Global, args: &ReportArgs) -> Result<(), Failure> {
    let Some((page, runs)) = args.files.split_last().filter(|(page, _)| page.extension().is_some_and(|e| e == "html"))
    else {
        return Err(Failure::input(
            "the last file is the page to write and ends in .html\n  help: sluice report fair.json sluice.json out.html",
        ));
    };
    let sides = sides(runs)?;
    let comparison = compare(&sides).map_err(Failure::input)?;
    let baseline = match &args.baseline {
        None => 0,
        Some(name) => sides.iter().position(|side| side.policy == *name).ok_or_else(|| {
            let known = || sides.iter().map(|side| side.policy.as_str());
            let hint = hint(name, known()).map(|hint| format!("; {hint}")).unwrap_or_default();
            Failure::input(format!(
                "--baseline: no run of `{name}`{hint}\n  allowed: {}",
                known().collect::<Vec<_>>().join(", ")
            ))
        })?,
    };
    let from = sides.first().and_then(|side| side.from.as_ref()).map(|(name, _)| name.clone()).unwrap_or_default();
    let title = args.title.clone().unwrap_or_else(|| format!("Sluice: {from}"));
    files::write(page, &compared(&title, &sides, &comparison, baseline))?;
    if args.open {
        let opened =
            Command::new("xdg-open").arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Err(error) = opened {
            eprintln!("not shown: xdg-open: {error}");
        }
    }
    if global.quiet {
        return Ok(());
    }
    let names: Vec<&str> = sides.iter().map(|side| side.policy.as_str()).collect();
    let value = json!({
        "schema": SCHEMA,
        "file": page.display().to_string(),
        "runs": names,
        "baseline": names.get(baseline),
    });
    output::one(global, &value, || format!("{comparison}wrote {}\n", page.display()))
}
