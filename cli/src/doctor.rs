//! `sluice doctor`: tries what Sluice needs on this host and undoes it again. It never compares versions, it needs no
//! daemon, and for everything that does not work it says what that costs and what to do.

pub mod args;
mod fix;
mod kernel;
mod nccl;
mod network;
mod places;
mod privileges;
mod rdma;
mod realtime;
mod running;
mod surplus;
mod traces;

use std::path::Path;
use std::sync::Arc;
use std::thread;

use serde::Serialize;
use serde_json::json;
use sluice_wire::snapshot::SCHEMA;
use sluiced::config;

use crate::client::Client;
use crate::failure::Failure;
use crate::global::{Format, Global};
use crate::output;
use args::DoctorArgs;
use fix::Remedy;

/// Where programs and maps are pinned.
const BPFFS: &str = "/sys/fs/bpf";

/// How a check ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    #[default]
    Ok,
    Warn,
    /// Does not work.
    Fail,
    Info,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Check {
    pub id: &'static str,
    pub state: State,
    pub found: String,
    /// What was expected; empty where it was found.
    pub expected: String,
    pub cost: String,
    pub fix: String,
    /// What `--fix` can do about it.
    #[serde(skip)]
    pub remedy: Option<Remedy>,
}

impl Check {
    pub fn ok(id: &'static str, found: impl Into<String>) -> Check {
        Check { id, found: found.into(), ..Check::default() }
    }
    pub fn info(id: &'static str, found: impl Into<String>) -> Check {
        Check { state: State::Info, ..Check::ok(id, found) }
    }
    pub fn warn(id: &'static str, found: impl Into<String>) -> Check {
        Check { state: State::Warn, ..Check::ok(id, found) }
    }
    /// It does not work.
    pub fn fail(id: &'static str, found: impl Into<String>) -> Check {
        Check { state: State::Fail, ..Check::ok(id, found) }
    }
    pub fn cost(self, cost: impl Into<String>) -> Check {
        Check { cost: cost.into(), ..self }
    }
    pub fn fix(self, fix: impl Into<String>) -> Check {
        Check { fix: fix.into(), ..self }
    }
    pub fn remedy(self, remedy: Remedy) -> Check {
        Check { remedy: Some(remedy), ..self }
    }
    pub fn expected(self, expected: impl Into<String>) -> Check {
        Check { expected: expected.into(), ..self }
    }
}

/// All groups of checks; each group runs in a thread of its own.
fn groups(global: &Global, file: Option<&Path>) -> Vec<Box<dyn FnOnce() -> Vec<Check> + Send>> {
    let (socket, file) = (global.socket.clone(), file.map(Path::to_owned));
    // Files that are wrong are told by a check of their own; the others then go by the defaults.
    let loaded = Arc::new(config::load(file.as_deref(), true).unwrap_or_default());
    let (links, clock, switches) = (loaded.clone(), loaded.config.max_clock_error(), loaded.clone());
    vec![
        Box::new(|| vec![kernel::btf(), kernel::capabilities(), kernel::bpffs(), kernel::sockets()]),
        Box::new(kernel::datapath),
        Box::new(|| vec![network::sysctls(), network::congestion_controls(), network::namespaces()]),
        Box::new(move || {
            let mut checks = network::interfaces(&links);
            checks.push(rdma::rdma(Path::new(rdma::DEVICES)));
            checks
        }),
        Box::new(move || vec![network::clock(clock), network::time_namespace()]),
        Box::new(|| vec![realtime::realtime()]),
        Box::new(|| running::pins(Path::new(BPFFS))),
        Box::new(|| nccl::profiler(Path::new("/proc")).into_iter().chain(running::journal()).collect()),
        Box::new(move || running::handshakes(&switches)),
        Box::new(move || {
            let running = places::daemon(&socket);
            let answers = running.state == State::Ok;
            let (pages, left) =
                (places::progress(&loaded.config.progress_dir()), places::leftovers(Path::new(BPFFS), answers));
            let mut checks = vec![running, pages, left, places::configuration(file.as_deref())];
            checks.extend(network::ports(answers, &loaded));
            checks
        }),
    ]
}

pub fn run(global: &Global, args: &DoctorArgs) -> Result<(), Failure> {
    if args.traces {
        return traces::run(global);
    }
    let config = args.config.as_deref();
    let mut checks = look(global, config);
    let mut fixed = Vec::new();
    if args.fix {
        fixed = fix::fix(&checks, args.yes, global.quiet || global.format() != Format::Table)?;
        if fixed.is_empty() && !global.quiet && global.format() == Format::Table {
            eprintln!("nothing was done");
        } else if !fixed.is_empty() {
            checks = look(global, config);
        }
    }
    tell(global, args, &checks, &fixed)
}

/// What it finds, for a report.
pub fn checks(global: &Global, config: Option<&Path>) -> Vec<Check> {
    look(global, config)
}

/// All checks, at the same time.
fn look(global: &Global, config: Option<&Path>) -> Vec<Check> {
    let running: Vec<_> = groups(global, config).into_iter().map(thread::spawn).collect();
    let gone =
        || vec![Check::fail("internal", "a check ended early").fix("report this with the output of sluice version")];
    let mut checks: Vec<Check> =
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|_| gone())).collect();
    if let Ok(snapshot) = Client::new(global).and_then(|client| client.snapshot()) {
        checks.extend(network::switches(&snapshot));
        checks.extend(realtime::of_daemon(&snapshot));
        checks.extend(surplus::surplus(&snapshot));
        checks.push(privileges::of_daemon(&snapshot));
        checks.extend(running::rows(&snapshot));
    }
    checks
}

fn tell(global: &Global, args: &DoctorArgs, checks: &[Check], fixed: &[fix::Fixed]) -> Result<(), Failure> {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (ok, warnings, failures, notes) =
        (count(State::Ok), count(State::Warn), count(State::Fail), count(State::Info));
    let value = json!({
        "schema": SCHEMA,
        "checks": checks,
        "ok": ok,
        "warnings": warnings,
        "failures": failures,
        "notes": notes,
        "fixed": fixed,
    });
    if let Some(path) = &args.report {
        std::fs::write(path, format!("{value:#}\n"))
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    }
    if global.quiet {
        // The exit status is the answer.
    } else if matches!(global.format(), Format::Csv | Format::Jsonl) {
        output::list(global, "checks", checks, String::new)?;
    } else {
        output::one(global, &value, || {
            let text: String = checks.iter().map(|check| lines(check, output::colors(global))).collect();
            let many = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
            let sums = [many(warnings, "warning"), many(failures, "failure"), many(notes, "note")].join(", ");
            format!("{text}{} checks: {ok} ok, {sums}\n", checks.len())
        })?;
    }
    if failures > 0 {
        return Err(Failure::no(format!("{failures} of {} checks failed", checks.len())));
    }
    Ok(())
}

fn lines(check: &Check, colors: bool) -> String {
    let (word, color) = match check.state {
        State::Ok => ("ok", "32"),
        State::Warn => ("warn", "33"),
        State::Fail => ("FAIL", "31"),
        State::Info => ("info", "36"),
    };
    let word = format!("{word:<4}");
    let word = if colors { format!("\x1b[{color}m{word}\x1b[0m") } else { word };
    let mut out = format!("  {word}  {}\n", check.found);
    for (name, text) in [("expected", &check.expected), ("cost", &check.cost), ("fix", &check.fix)] {
        if !text.is_empty() {
            out += &format!("        {name}: {text}\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_cost_and_fix() {
        let check = Check::fail("clock", "clock not synchronised").cost("no coordination").fix("install chrony");
        let text = lines(&check, false);
        assert_eq!(
            text,
            "  FAIL  clock not synchronised\n        cost: no coordination\n        fix: install chrony\n"
        );
        assert!(lines(&check, true).contains("\x1b[31mFAIL"));
    }

    #[test]
    fn every_quick_check_ends_and_a_bad_one_has_a_fix() {
        let loaded = config::Loaded::default();
        let mut checks = vec![kernel::btf(), kernel::capabilities(), kernel::bpffs(), network::sysctls()];
        checks.extend([
            network::congestion_controls(),
            network::namespaces(),
            network::clock(loaded.config.max_clock_error()),
            network::time_namespace(),
        ]);
        let pages = loaded.config.progress_dir();
        checks.extend([
            places::progress(&pages),
            places::leftovers(Path::new(BPFFS), false),
            places::configuration(None),
        ]);
        checks.extend(network::ports(false, &loaded));
        checks.extend(network::interfaces(&loaded));
        checks.push(realtime::realtime());
        checks.push(places::daemon(std::path::Path::new("/nonexistent.sock")));
        for check in checks {
            assert!(!check.found.is_empty(), "{check:?}");
            assert!(!matches!(check.state, State::Warn | State::Fail) || !check.fix.is_empty(), "{check:?}");
        }
    }
}
