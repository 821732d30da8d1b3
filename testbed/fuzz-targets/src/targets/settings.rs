//! F7 and F33: what people write for daemons, switches and simulations.

use std::path::Path;

use sluice_formats::document::Notation;
use sluice_formats::problem::{E_PARSE, Problems};
use sluice_scenario::Scenario;
use sluice_switch::config::Config;
use sluiced::config;

use super::topologies::refused;
use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses whose, then the file.
pub static SETTINGS: Target = Target {
    name: "F07-settings",
    parser: "sluiced.toml and the switch's file",
    property: "every mistake has a line or a key; what is accepted is accepted again, with every key as it was",
    shape: Shape::ChosenText(&[
        "[node]",
        "[[links]]",
        "[[switches]]",
        "[[switch]]",
        "[[switch.port]]",
        "name",
        "address",
        "transport",
        "udp",
        "true",
        "false",
        "\"\"\"",
        "'''",
        "[",
        "]",
        "=",
        "1979-05-27",
        "\"10.0.0.0/8\"",
        "\"[::]:9604\"",
        "0x10",
        "1_000",
        "inf",
        "mode",
        "\"active\"",
    ]),
    run: settings,
    seeds: settings_seeds,
};

/// A byte that chooses the notation, then a scenario.
pub static SCENARIOS: Target = Target {
    name: "F33-scenarios",
    parser: "scenarios, as TOML and as JSON",
    property: "a refusal names a code and what is wrong; the jobs of an accepted one have somebody who works, and are the same each time",
    shape: Shape::ChosenText(&[
        "[network]",
        "[[jobs]]",
        "[arrivals]",
        "[models.a]",
        "[placement]",
        "[[faults]]",
        "[scheduler]",
        "kind",
        "\"star\"",
        "\"ring\"",
        "\"ps\"",
        "\"leaf-spine\"",
        "\"fat-tree\"",
        "hosts",
        "gpus",
        "gbps",
        "bytes",
        "compute_s",
        "workers",
        "servers",
        "iterations",
        "arrival_s",
        "\"poisson\"",
        "\"spread\"",
        "policy",
        "true",
        "{",
        "}",
        "[",
        "]",
    ]),
    run: scenarios,
    seeds: scenarios_seeds,
};

/// Hosts and jobs of a scenario that is built whole here.
const SMALL: usize = 64;

fn settings(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    if choice % 2 == 0 {
        match daemon(text) {
            Ok(loaded) => {
                let again = daemon(text).expect("what was accepted is accepted");
                let (_, changed) = config::reload(&loaded.config, &again.config);
                assert!(changed.taken.is_empty() && changed.waiting.is_empty(), "{changed:?}");
            }
            Err(problems) => placed(&problems),
        }
    } else if let Err(problems) = Config::parse(Path::new("/nonexistent/switch.toml"), text) {
        placed(&problems);
    }
}

fn daemon(text: &str) -> Result<config::Loaded, Problems> {
    let mut reader = config::read::Reader::default();
    reader.text(Path::new("sluiced.toml"), text);
    config::judge(reader, true)
}

/// Every mistake is told with its line or its key; a text that is none as a whole, with its file.
fn placed(problems: &Problems) {
    refused(problems);
    for problem in problems.all() {
        assert!(problem.line > 0 || !problem.key.is_empty() || problem.code == E_PARSE, "no place: {problem:?}");
    }
}

fn scenarios(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let notation = if choice % 2 == 0 { Notation::Toml } else { Notation::Json };
    let read = || Scenario::parse(text, notation, "s.toml", Path::new("/nonexistent"));
    match read() {
        Ok(scenario) => {
            assert!(scenario.jobs.iter().all(|job| job.workers > 0), "a job has somebody who works");
            if scenario.jobs.len() <= SMALL {
                let again = read().expect("what was accepted is accepted");
                let jobs = |scenario: &Scenario| scenario.jobs.iter().map(|job| format!("{job:?}")).collect::<Vec<_>>();
                assert_eq!(jobs(&scenario), jobs(&again), "every draw is the same each time");
            }
        }
        Err(problems) => refused(&problems),
    }
}

fn settings_seeds() -> Vec<Seed> {
    let daemon = "[node]\nname = \"gpu-17\"\n\n[slot]\nlength_ms = 60\n\n[[links]]\nname = \"eth0\"\n\n[[switches]]\nname = \"leaf0\"\naddress = \"10.0.9.1:9604\"\ntransport = \"udp\"\n";
    let dotted = "node.name = 'a'\nlog.level = \"info,sluiced::monitor=debug\"\nslot = { length_ms = 40 }\nmetrics.max_jobs = 16 # few\n";
    let switch = "[slot]\nlength_ms = 60\n\n[listen]\ngrpc = \"[::]:9604\"\n\n[[switch]]\nname = \"leaf0\"\n[[switch.port]]\nid = 1\nmbps = 25000\n";
    vec![
        Seed::of(0, "daemon", daemon),
        Seed::of(0, "dotted", dotted),
        Seed::of(0, "defaults", config::commented_defaults()),
        Seed::of(1, "switch", switch),
    ]
}

fn scenarios_seeds() -> Vec<Seed> {
    let small = include_str!("../../../scenario/src/tests/small.toml");
    let json = r#"{"version":1,"name":"j","network":{"kind":"star","hosts":2,"gbps":1},"jobs":[{"id":"a","bytes":50,"compute_s":0.5,
"arch":"ring","workers":2,"iterations":1}],"faults":[{"at_s":1,"kind":"daemon-stop","target":"h0","for_s":0.1}]}"#;
    vec![Seed::of(0, "small", small), Seed::of(1, "json", json)]
}
