//! `cargo xtask demo`: from a clone to a comparison in one command.

use crate::setup;
use crate::shell::{Early, Step, have, is_root, options, root, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask demo

Installs what is missing, builds sluiced, sluice-switch, sluice and sluice-job, makes six hosts and one switch out of
network namespaces, and runs the training jobs of testbed/scenarios/demo.toml with real TCP between them: once under
each of CUBIC, Reno and BBR, and once under Sluice. Ends with a table of job completion times, a picture of the rates
over time, and the path of an HTML report. Needs root for the namespaces (asks sudo where it is not root).
";

/// The policies that are compared, in order.
pub(crate) const POLICIES: [&str; 4] = ["fair:cubic", "fair:reno", "fair:bbr", "sluice"];

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    options(args, HELP, &[])?;
    if !is_root() && !have("sudo") {
        return Err("network namespaces need root: run it as root, or install sudo".to_owned().into());
    }
    setup::ensure()?;
    load_modules();
    build("demo")?;
    let binary = target_dir().join("demo").join("sluice");
    let report = root().join("target").join("demo-report.html");
    std::fs::create_dir_all(root().join("target")).map_err(|e| format!("creating target/: {e}"))?;
    let step = Step::new(&binary.to_string_lossy(), &["testbed", "run", "testbed/scenarios/demo.toml"]);
    let step = step.args(POLICIES.iter().flat_map(|policy| ["--policy", *policy]));
    step.args(["--report", &report.to_string_lossy()]).with_root().run()?;
    println!("\nThe report, one file for any browser: {}", report.display());
    Ok(())
}

/// Brings in what the kernel may have as modules.
pub(crate) fn load_modules() {
    for name in ["tcp_bbr", "sch_htb", "sch_tbf"] {
        // Where it is built in or has no module there is nothing to load.
        let _ = Step::new("modprobe", &["-q", name]).with_root().quiet();
    }
}

/// Builds the programs of measured runs, in release.
pub(crate) fn build_release() -> Result<(), String> {
    build("release")
}

/// Builds the programs that a testbed run starts, without the solver that no run needs.
fn build(profile: &str) -> Result<(), String> {
    let step = Step::cargo(&["build", "--locked", "--bins", "--no-default-features", "--features", "sluice/testbed"]);
    let packages = ["sluiced", "sluice-switch", "sluice", "sluice-testbed"];
    step.args(["--profile", profile]).args(packages.iter().flat_map(|package| ["-p", *package])).run()
}

/// Builds the daemons and the experiments as the demo builds them, without the command line.
pub(crate) fn build_experiments() -> Result<(), String> {
    let step = Step::cargo(&["build", "--locked", "--bins", "--no-default-features", "--profile", "demo"]);
    step.args(["-p", "sluiced", "-p", "sluice-switch", "-p", "sluice-testbed"]).run()
}
