//! `sluice sim compare`: results of earlier runs side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use sluice_report::simulated::compare::{Side, compare};

use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::output;
use crate::plan::files;

/// No result is larger.
const MAX_BYTES: u64 = 512 << 20;

/// The runs in these files; where one scheduler is in several, their names tell them apart.
pub fn sides(paths: &[PathBuf]) -> Result<Vec<Side>, Failure> {
    let mut sides: Vec<Side> = Vec::new();
    for path in paths {
        let name = files::name(path);
        let bytes = files::read(path, MAX_BYTES).map_err(Failure::input)?;
        let found = Side::read(&bytes).map_err(|error| Failure::input(format!("{name}: {error}")))?;
        for mut side in found {
            // The same scheduler twice: the files tell them apart.
            if sides.iter().any(|s| s.policy == side.policy) {
                side.policy = format!("{} ({name})", side.policy);
            }
            sides.push(side);
        }
    }
    Ok(sides)
}

pub fn run(global: &Global, paths: &[PathBuf]) -> Result<ExitCode, Failure> {
    let sides = sides(paths)?;
    let compared = compare(&sides).map_err(Failure::input)?;
    let rows: Vec<_> = compared
        .rows
        .iter()
        .map(|row| {
            let others = compared.rows.iter().filter(|other| other.policy != row.policy);
            let lower: serde_json::Map<_, _> =
                others.map(|other| (other.policy.clone(), json!(row.lower_than(other)))).collect();
            json!({"policy": row.policy, "jct_mean_s": row.mean_s, "jct_p99_s": row.p99_s, "lower_than": lower})
        })
        .collect();
    match global.format() {
        Format::Table => output::print(&compared.to_string())?,
        _ => output::list(global, "runs", &rows, String::new)?,
    }
    Ok(ExitCode::SUCCESS)
}
