//! `sluice plan check`: says what the checker proved, or the first violation.

use std::process::ExitCode;

use sluice_formats::quantity::Unit;
use sluice_plan::check::{self, Report};
use sluice_plan::plan::{MAX_BYTES, Plan};

use super::args::CheckArgs;
use super::{NO, files};
use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::output;

pub fn run(global: &Global, args: &CheckArgs) -> Result<ExitCode, Failure> {
    let file = files::name(&args.plan);
    let plan = Plan::read(&files::read(&args.plan, MAX_BYTES as u64)?, &file)?;
    let given = args.fabric.read()?;
    let report = check::check(&plan, given.as_ref());
    let status = if report.ok() { 0 } else { NO };
    if global.quiet {
        return Ok(ExitCode::from(status));
    }
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    match (global.format(), &report.violation) {
        (Format::Json | Format::Jsonl, _) => output::print(&format!("{}\n", report.to_json()))?,
        (_, None) => output::print(&proved(&file, &report))?,
        (_, Some(violation)) => {
            let (code, at) = (violation.code.word(), &violation.at);
            let text =
                format!("{file}: not a good plan\nviolation[{code}]: {}\n  --> {file} at {at}", violation.message);
            return Err(Failure::no(text));
        }
    }
    Ok(ExitCode::from(status))
}

fn proved(file: &str, report: &Report) -> String {
    let mut text = format!("{file}: good\n");
    for said in &report.proved {
        text += &format!("  proved         {said}\n");
    }
    for said in &report.not_rechecked {
        text += &format!("  not rechecked  {said}\n");
    }
    if let Some((figures, bandwidth)) =
        report.figures.as_ref().and_then(|f| f.algorithm_bandwidth.as_ref().map(|b| (f, b)))
    {
        let unit = match figures.unit {
            Unit::Abstract => "",
            Unit::Bytes(unit) => unit.word(),
        };
        let number = format!("{:.3} {unit}", bandwidth.to_f64());
        text += &format!("  bandwidth      {}\n", number.trim_end());
    }
    text
}
