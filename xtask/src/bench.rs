//! `cargo xtask bench`: the benchmarks and the measured experiments behind BENCHMARKS.md.

use crate::demo::{POLICIES, build_release};
use crate::record::record;
use crate::records::{load, write_tables};
use crate::scoreboard;
use crate::setup;
use crate::shell::{Early, Step, options, root, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask bench [--micro | --testbed] [--list]
cargo xtask bench --record AREA [--repeats N]
cargo xtask bench --tables
cargo xtask bench scoreboard [OPTIONS]

  --micro        only the criterion benchmarks (decisions, load tables) and the planners at full size
  --testbed      only the experiments on network namespaces; needs root; about an hour
  --list         print the commands instead of running them
  --record AREA  run the commands of one area, write what they measured into benchmarks/AREA.tsv with date and commit,
                 and the area's table in BENCHMARKS.md anew
  --repeats N    how often each of them runs, 1 to 99; default 3. The record has the median, the least and the most, and
                 the load of the machine
  --tables       only write the tables of BENCHMARKS.md anew from the records
  scoreboard     cases under policies by turns, hours in all, each run a file, so that the same command goes on where it
                 was stopped; `cargo xtask bench scoreboard --help` says more

Without an option both kinds run. Reports are written to target/bench/.

A record is a line per figure with tabs between: what it is, its bar, value, spread, command, source, date, commit. The
source says where the figure is read:

  hand                    nowhere; whoever runs the command writes the value, date and commit, then `--tables`
  criterion DIRECTORY     the median below target/criterion/DIRECTORY
  printed LINE … LABEL    the first number behind LABEL in the last line of the output that begins with LINE; with [ms] or
                          another unit after it where the number has none

A value on the wrong side of a bar of the form `≤ 50 µs` is set in bold. A commit with + had changes of files besides.
A new area needs its file and two lines in BENCHMARKS.md, before and behind where its table belongs; a test says so.
";

const MAX_REPEATS: usize = 99;

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

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["scoreboard", rest @ ..] => return scoreboard::run(rest),
        [.., "--help" | "-h"] => {}
        ["--tables"] => return Ok(write_tables(&load()?)?),
        ["--record", area] => return Ok(record(area, 3)?),
        ["--record", area, "--repeats", n] => {
            let repeats = n.parse().ok().filter(|n| (1..=MAX_REPEATS).contains(n));
            let repeats = repeats.ok_or_else(|| format!("--repeats {n:?}; allowed: 1 to {MAX_REPEATS}"))?;
            return Ok(record(area, repeats)?);
        }
        ["--record"] => {
            let areas: Vec<String> = load()?.into_iter().map(|record| record.area).collect();
            return Err(format!("--record needs an area: {}", areas.join(", ")).into());
        }
        _ => {}
    }
    let given = options(args, HELP, &["--micro", "--testbed", "--list"])?;
    let has = |option: &str| given.contains(&option);
    let (micro, testbed) = (!has("--testbed"), !has("--micro"));
    let large = |package, tests| {
        let step = Step::cargo(&["test", "--release", "--locked", "-p", package, "--test", "all"]);
        step.args(["--", "--ignored", "--nocapture", tests])
    };
    let steps = |wanted: bool, list: Vec<Step>| if wanted { list } else { Vec::new() };
    let criterion = Step::cargo(&["bench", "--workspace", "--locked", "--features", "sluiced/testing", "--bench", "*"]);
    let planners = [("sluice-planners", "forestcoll::large"), ("sluice-planners-lp", "alltoall::large")];
    let planners = planners.map(|(package, tests)| large(package, tests));
    let micro = steps(micro, [criterion].into_iter().chain(planners).collect());
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
        let step = Step::new(&binary.to_string_lossy(), &["testbed", "run", &scenario, "--repeats", repeats]);
        let policies = POLICIES.iter().chain(*further).flat_map(|policy| ["--policy", *policy]);
        step.args(policies).args(["--report", &report]).with_root()
    };
    let further = |what: &&str| Step::new(&experiment.to_string_lossy(), &[what]).with_root();
    EXPERIMENTS.iter().map(scenario).chain(FURTHER.iter().map(further)).collect()
}
