//! `cargo xtask bench scoreboard`: builds what measured runs need and hands over to `sluice-experiment scoreboard`.

use crate::demo::{build_experiments, load_modules};
use crate::setup;
use crate::shell::{Early, Step, have, is_root, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask bench scoreboard [--cases A,B] [--policies P,Q] [--pairs N] [--load quiet|busy] [--out DIR]
cargo xtask bench scoreboard --tables [--out DIR]
cargo xtask bench scoreboard --list

Runs scenarios with real TCP on network namespaces under every policy by turns, and writes what came of it. Needs root.
Every run is one file in DIR, named by case, load, policy and turn: the same command does only what is missing, so it may
be stopped at any time, and goes on the next evening. It says which run is under way and how much time is left.

  --cases A,B     cases by name, or scenario files; default: all that --list names
  --policies P,Q  default: fair:cubic, fair:reno, fair:bbr, fair:mltcp, sluice, sluice:fair
  --pairs N       turns, in each of which every policy runs once; default 5
  --load L        quiet, busy (a loop of the shell keeps one core busy, anew for each run) or quiet,busy; default: what
                  each case wants, which is quiet, and for the demo both
  --out DIR       default target/scoreboard
  --tables        run nothing, write only the tables and the picture of what is there
  --list          name the cases

In DIR afterwards: scoreboard.md (in words, with \"no gain\" where there is none; mean and spread of job completion
times, the best TCP, ratios of pairs, how much unmanaged traffic got through, retransmits, processor time of daemons and
switches), scoreboard.tsv (the same for programs) and scoreboard.svg (a dot for each run). Where a case has no unmanaged
traffic they say how far Sluice goes on the way from the best TCP to the best order that the simulator knows.
Stop it with Ctrl-C or SIGTERM; whatever ends it, nothing of it goes on.
";

pub(crate) fn run(args: &[&str]) -> Result<(), Early> {
    if args.iter().any(|arg| matches!(*arg, "--help" | "-h")) {
        print!("{HELP}");
        return Err(Early::Helped);
    }
    let only_reads = args.iter().any(|arg| matches!(*arg, "--tables" | "--list"));
    if !only_reads && !is_root() && !have("sudo") {
        return Err("network namespaces need root: run it as root, or install sudo".to_owned().into());
    }
    setup::ensure()?;
    build_experiments()?;
    let experiment = target_dir().join("demo").join("sluice-experiment");
    let step = Step::new(&experiment.to_string_lossy(), &["scoreboard"]).args(args.iter().copied());
    if only_reads {
        return Ok(step.run()?);
    }
    load_modules();
    // In its place, not below it: a signal for this command is one for the runs.
    Err(step.with_root().become_it().into())
}
