//! `cargo xtask bench`: the benchmarks and the measured experiments behind BENCHMARKS.md.

use crate::demo::build_release;
use crate::setup;
use crate::shell::{Step, options, root, target_dir};

const HELP: &str = "\
cargo xtask bench [--micro | --testbed] [--list]

  --micro     only the criterion benchmarks (decisions, load tables) and the planners at full size
  --testbed   only the experiments on network namespaces; needs root; about an hour
  --list      print the commands instead of running them

Without an option both run. Reports are written to target/bench/.
";

/// Scenario, repeats, and further policies beside the scenario's own.
const EXPERIMENTS: [(&str, &str, &[&str]); 5] = [
    ("testbed-6-25g", "3", &["sluice:primal-dual"]),
    ("testbed-6-10g", "3", &["sluice:primal-dual"]),
    ("testbed-6-25g-full", "3", &["sluice:primal-dual"]),
    ("testbed-6-25g-nic", "3", &[]),
    ("pair", "3", &[]),
];

/// What `sluice-experiment` measures beside scenarios.
const FURTHER: [&str; 4] = ["beside", "cost", "forest", "fail-open"];

/// Policies of every scenario.
const POLICIES: [&str; 4] = ["fair:cubic", "fair:reno", "fair:bbr", "sluice"];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let given = options(args, HELP, &["--micro", "--testbed", "--list"])?;
    let has = |option: &str| given.contains(&option);
    let (micro, testbed) = (!has("--testbed"), !has("--micro"));
    let rates = ["test", "--release", "--locked", "-p", "sluice-plan-lp", "--test", "alltoall", "--", "--ignored"];
    let steps = |wanted: bool, list: Vec<Step>| if wanted { list } else { Vec::new() };
    let planners = ["test", "--release", "--locked", "-p", "sluice-plan", "--test", "forestcoll", "--", "--ignored"];
    let micro = steps(
        micro,
        vec![
            Step::cargo(&["bench", "--workspace", "--locked", "--bench", "*"]),
            Step::cargo(&planners).arg("--nocapture").arg("large"),
            Step::cargo(&rates).arg("--nocapture").arg("large"),
        ],
    );
    let testbed = steps(testbed, experiments());
    if has("--list") {
        micro.iter().chain(&testbed).for_each(|s| println!("{}", s.shown()));
        return Ok(());
    }
    setup::ensure()?;
    micro.iter().try_for_each(Step::run)?;
    if !testbed.is_empty() {
        let reports = root().join("target").join("bench");
        std::fs::create_dir_all(&reports).map_err(|e| format!("creating {}: {e}", reports.display()))?;
        build_release()?;
        testbed.iter().try_for_each(Step::run)?;
    }
    Ok(())
}

fn experiments() -> Vec<Step> {
    let release = target_dir().join("release");
    let (binary, experiment) = (release.join("sluice"), release.join("sluice-experiment"));
    let scenario = |(name, repeats, further): &(&str, &str, &[&str])| {
        let scenario = format!("testbed/scenarios/{name}.toml");
        let report = format!("target/bench/{name}.html");
        let mut step = Step::new(&binary.to_string_lossy(), &["testbed", "run", &scenario, "--repeats", repeats]);
        for policy in POLICIES.iter().chain(*further) {
            step = step.arg("--policy").arg(policy);
        }
        step.arg("--report").arg(&report).with_root()
    };
    let further = |what: &&str| Step::new(&experiment.to_string_lossy(), &[what]).with_root();
    EXPERIMENTS.iter().map(scenario).chain(FURTHER.iter().map(further)).collect()
}
