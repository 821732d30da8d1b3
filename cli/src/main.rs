//! `sluice`: one command for people. It asks the daemon, tries things on this host, runs the testbed and the simulator,
//! and plans collectives; it decides nothing itself.
//!
//! Exit status: 0 done, 1 failed with a message, 2 wrong usage or invalid input, 3 the answer is no, 4 daemon not
//! reachable or not permitted, 5 limit reached with a partial result, 130 interrupted.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::string_slice))]

mod args;
mod audit;
mod bugreport;
mod client;
mod commands;
mod concepts;
mod config;
mod doctor;
#[cfg(all(test, feature = "lp", feature = "testbed"))]
mod documented;
mod failure;
mod fleet;
mod format;
mod global;
mod interrupt;
mod limits;
mod man;
mod metrics;
mod output;
mod past;
mod peer;
mod plan;
mod report;
mod shard;
mod sim;
mod table;
#[cfg(feature = "testbed")]
mod testbed;
mod timeline;
mod tls;
mod top;
mod topology;
mod view;
mod why;
mod words;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Cmd};
use failure::Failure;

fn main() -> ExitCode {
    let args = Args::parse();
    let quiet = args.global.quiet;
    match run(args) {
        Ok(code) => code,
        Err(failure) => {
            if !quiet || failure.code != 3 {
                // A closed stderr is no reason to end differently.
                let _ = writeln!(std::io::stderr(), "{failure}");
            }
            ExitCode::from(failure.code)
        }
    }
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let global = args.global;
    match args.command {
        Cmd::Status(status) => commands::status(&global, &status).map(done),
        Cmd::Jobs(jobs) => commands::jobs(&global, &jobs).map(done),
        Cmd::Flows(flows) => commands::flows(&global, &flows).map(done),
        Cmd::Links(links) => commands::links(&global, &links).map(done),
        Cmd::Switches(switches) => commands::switches(&global, &switches).map(done),
        Cmd::Schedule(schedule) => commands::schedule(&global, &schedule).map(done),
        Cmd::Explain(explain) => commands::explain(&global, &explain).map(done),
        Cmd::Why(of) => why::run(&global, &of).map(done),
        Cmd::Clock => commands::clock(&global).map(done),
        Cmd::Mode(mode) => commands::mode(&global, &mode).map(done),
        Cmd::Reload(reload) => commands::reload(&global, &reload).map(done),
        Cmd::Drain(drain) => commands::drain(&global, &drain).map(done),
        Cmd::Log(log) => commands::log(&global, &log).map(done),
        Cmd::Audit(of) => audit::run(&global, &of).map(done),
        Cmd::Metrics(metrics) => metrics::run(&global, &metrics).map(done),
        Cmd::Top(top) => top::run(&global, &top).map(done),
        Cmd::Timeline(timeline) => timeline::run(&global, &timeline).map(done),
        Cmd::Doctor(doctor) => doctor::run(&global, &doctor).map(done),
        #[cfg(feature = "testbed")]
        Cmd::Testbed(testbed) => testbed::run(&global, &testbed),
        Cmd::Sim(command) => sim::run(&global, &command),
        Cmd::Topology(command) => topology::run(&global, &command),
        Cmd::Fleet(command) => fleet::run(&global, &command),
        Cmd::Tls(command) => tls::run(&global, &command),
        Cmd::Plan(command) => plan::run(&global, &command),
        Cmd::Bugreport(report) => bugreport::run(&global, &report).map(done),
        Cmd::Config(command) => config::run(&global, &command),
        Cmd::Limits => limits::run(&global).map(done),
        Cmd::Report(report) => report::run(&global, &report).map(done),
        Cmd::Man(man) => man::run(&global, &man).map(done),
        Cmd::Version => commands::version(&global).map(done),
        Cmd::Concepts => {
            output::print(concepts::CONCEPTS)?;
            Ok(ExitCode::SUCCESS)
        }
        Cmd::Completions { shell } => {
            let mut command = <Args as clap::CommandFactory>::command();
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "sluice", &mut script);
            output::print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
