//! A grid of settings, seeds and schedulers. Every finished run is a file, written whole or not at all; what is there
//! and was made from the same scenario is not run again.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sluice_schedule::units::fnv1a64;

use sluice_report::simulated::SimResult;
use sluice_scenario::{Axis, Policy, Scenario, Set};

/// No sweep has more runs.
pub const MAX_RUNS: usize = 100_000;
/// No file of a run is larger.
const MAX_BYTES: u64 = 512 << 20;

/// One point of the grid: a value for every axis, and the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// A value for every axis, in their order.
    pub sets: Vec<Set>,
    /// The scenario with these values and its seed.
    pub scenario: Scenario,
}

/// All combinations of the axes' values, the last axis fastest.
pub fn grid(axes: &[Axis]) -> Vec<Vec<Set>> {
    axes.iter().fold(vec![Vec::new()], |grid, axis| {
        let with = |sets: &Vec<Set>, value: &String| {
            let set = Set { key: axis.key.clone(), value: value.clone() };
            sets.iter().cloned().chain([set]).collect::<Vec<Set>>()
        };
        grid.iter().flat_map(|sets| axis.values.iter().map(move |value| with(sets, value))).collect()
    })
}

/// The figures of a finished run that the table shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Mean completion time, in seconds.
    pub jct_mean_s: f64,
    /// Median completion time, in seconds.
    pub jct_p50_s: f64,
    /// The 99th percentile, in seconds.
    pub jct_p99_s: f64,
    /// The longest, in seconds.
    pub jct_max_s: f64,
    /// Jobs without an end; they are in no mean.
    pub unfinished: Vec<String>,
}

/// What a run was made from: a file made from anything else is not its result.
fn digest(cell: &Cell, policy: &Policy) -> String {
    let s = &cell.scenario;
    let whole = format!(
        "{} {policy} {} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        s.seed,
        s.time,
        s.network,
        s.routing,
        s.placement,
        s.defaults,
        s.jobs,
        s.cross_flows,
        s.cross_traffic,
        s.control,
        s.faults,
        s.schedulers.options,
        cell.sets,
    );
    format!("{:016x}", fnv1a64(whole.as_bytes()))
}

/// Where the file of a run is.
pub fn file(dir: &Path, cell: &Cell, policy: &Policy) -> PathBuf {
    dir.join(format!("{}.{}.{}.json", cell.scenario.name, policy.file_part(), digest(cell, policy)))
}

/// The figures of a run that is already there; `None` where there is none, or none that can be used.
pub fn finished(dir: &Path, cell: &Cell, policy: &Policy) -> Option<Figures> {
    #[derive(Deserialize)]
    struct Kept {
        digest: String,
        result: Figures,
    }
    let mut text = String::new();
    File::open(file(dir, cell, policy)).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let kept: Kept = serde_json::from_str(&text).ok()?;
    (kept.digest == digest(cell, policy)).then_some(kept.result)
}

/// Keeps a run.
///
/// # Errors
/// The file cannot be written; no part of it stays.
pub fn keep(dir: &Path, cell: &Cell, policy: &Policy, result: &SimResult) -> io::Result<Figures> {
    let mut value = result.file(&cell.scenario);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("digest".into(), json!(digest(cell, policy)));
        fields.insert("set".into(), cell.sets.iter().map(|s| (s.key.clone(), json!(s.value))).collect());
    }
    let path = file(dir, cell, policy);
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(value.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, &path)
    });
    if written.is_err() {
        // Nothing can be done about a part that cannot be removed either.
        drop(fs::remove_file(&part));
    }
    written?;
    // From the file, so that a resumed sweep has the same figures to the last digit.
    finished(dir, cell, policy).ok_or_else(|| io::Error::other("what was just written cannot be read back"))
}

/// Takes a finished run over from another directory, as it is.
///
/// # Errors
/// The file cannot be read or written; no part of it stays.
pub fn take(from: &Path, to: &Path, cell: &Cell, policy: &Policy) -> io::Result<()> {
    let path = file(to, cell, policy);
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let taken = fs::copy(file(from, cell, policy), &part).and_then(|_| fs::rename(&part, &path));
    if taken.is_err() {
        // Nothing can be done about a part that cannot be removed either.
        drop(fs::remove_file(&part));
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Outcome;
    use sluice_scenario::Notation;

    fn cell(slot: &str) -> Cell {
        let text = "version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n[[jobs]]\nid = \"a\"\nmodel = \"vgg16\"\narch = \"ring\"\nworkers = 2\niterations = 5\n";
        let sets = vec![Set { key: "time.slot_ms".into(), value: slot.into() }];
        let scenario = Scenario::parse_with(text, Notation::Toml, "t", Path::new("."), &sets);
        Cell { sets, scenario: scenario.unwrap_or_else(|e| panic!("{e}")) }
    }

    #[test]
    fn grids_are_products() {
        let axes: Vec<Axis> = ["a=1,2", "b=x,y,z"].iter().map(|t| t.parse().expect("an axis")).collect();
        let grid = grid(&axes);
        assert_eq!(grid.len(), 6);
        assert_eq!((grid[1][0].value.as_str(), grid[1][1].value.as_str()), ("1", "y"));
        assert_eq!(super::grid(&[]), [Vec::new()]);
    }

    #[test]
    fn what_is_kept_is_found_and_what_is_half_or_other_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let policy: Policy = "fair".parse().expect("a policy");
        let (here, other) = (cell("20"), cell("60"));
        assert_eq!(finished(dir.path(), &here, &policy), None);
        let result = super::super::result::result(&here.scenario, &policy, &Outcome::default(), Duration::ZERO);
        let kept = keep(dir.path(), &here, &policy, &result).expect("written");
        assert_eq!(finished(dir.path(), &here, &policy), Some(kept));
        assert_eq!(finished(dir.path(), &other, &policy), None);
        let path = file(dir.path(), &here, &policy);
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() / 2]).expect("written");
        assert_eq!(finished(dir.path(), &here, &policy), None);
    }
}
