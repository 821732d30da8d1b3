//! Every baseline scheduler on the simulator's engine: by hand, against the worked examples, and on random scenarios.

mod by_hand;
mod interleaving;
mod orders;
mod random;
mod speed;

use std::path::Path;

use sluice_scenario::{Notation, Policy, Scenario};
use sluice_simulate::policy::build;
use sluice_simulate::{Outcome, Watch, run};

/// Reads a scenario from TOML.
fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, Notation::Toml, "test.toml", Path::new(".")).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs a scenario under the scheduler of this name.
fn under(policy: &str, scenario: &Scenario) -> Outcome {
    let policy: Policy = policy.parse().unwrap_or_else(|e| panic!("{e}"));
    let mut scheduler = build(&policy, scenario).unwrap_or_else(|e| panic!("{e}"));
    run(scenario, &mut *scheduler, &Watch::default()).unwrap_or_else(|e| panic!("{policy}: {e}"))
}

/// Seconds from arrival to end of every job.
fn jcts(outcome: &Outcome) -> Vec<f64> {
    outcome.jobs.iter().map(|j| j.ended.map_or(f64::NAN, |e| e.minus(j.arrival).as_secs_f64())).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Equal to a microsecond.
fn close(got: &[f64], want: &[f64]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6)
}

/// Hosts on one switch, 1 GB/s each.
fn star(hosts: usize) -> String {
    format!("version = 1\nname = \"t\"\n[network]\nkind = \"star\"\nhosts = {hosts}\ngpus = 64\ngbps = 8\n")
}

/// A ring on these hosts.
fn ring(id: &str, bytes: u64, compute: &str, iterations: u32, arrival: &str, hosts: &[usize]) -> String {
    let hosts: Vec<String> = hosts.iter().map(|h| format!("\"h{h}\"")).collect();
    format!(
        "[[jobs]]\nid = \"{id}\"\narch = \"ring\"\nbytes = {bytes}\ncompute_s = \"{compute}\"\n\
         iterations = {iterations}\narrival_s = \"{arrival}\"\nplacement = {{ workers = [{}] }}\n",
        hosts.join(", ")
    )
}

/// Every scenario file of the repository can be read, and its name is the file's.
#[test]
fn shipped_scenarios_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut read = 0;
    for path in files.filter_map(|f| f.ok().map(|f| f.path())).filter(|p| p.extension().is_some_and(|e| e == "toml")) {
        let s = Scenario::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(path.file_stem().and_then(|n| n.to_str()), Some(s.name.as_str()));
        read += 1;
    }
    assert!(read > 20, "{read}");
}
