//! The product against a small hand-driven world.

mod mini;

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mini::{Mini, Plain};
use sluice_schedule::Nanos;

use super::SluiceScheduler;
use crate::scenario::{NodeIx, Notation, Policy, Scenario};
use crate::sim::scheduler::Scheduler;

/// A scenario: head, then tables.
fn scenario(text: &str) -> Scenario {
    let whole = format!("version = 1\nname = \"x\"\nseed = 1\n{text}");
    match Scenario::parse(&whole, Notation::Toml, "x.toml", Path::new(".")) {
        Ok(scenario) => scenario,
        Err(problems) => panic!("{problems}"),
    }
}

fn policy(name: &str) -> Policy {
    name.parse().expect("a policy")
}

fn run(scenario: &Scenario, name: &str) -> (Vec<f64>, SluiceScheduler) {
    let mut scheduler = SluiceScheduler::new(scenario, &policy(name));
    let jct = Mini::new(scenario).run(&mut scheduler, Nanos::from_millis(600_000));
    (jct, scheduler)
}

fn plain(scenario: &Scenario) -> Vec<f64> {
    Mini::new(scenario).run(&mut Plain, Nanos::from_millis(600_000))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn counter(scheduler: &SluiceScheduler, name: &str) -> f64 {
    let all = scheduler.counters();
    all.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, value)| *value)
}

const FIXED_MIX: &str = r#"
[[jobs]]
id = "vgg19"
arch = "ring"
workers = 3
bytes = 576000000
compute_s = 0.6
iterations = 8
placement = { workers = ["h0", "h1", "h2"] }
[[jobs]]
id = "vgg16"
arch = "ps"
workers = 2
servers = 2
bytes = 552000000
compute_s = 0.52
iterations = 8
placement = { workers = ["h3", "h4"], servers = ["h0", "h5"] }
[[jobs]]
id = "resnet50"
arch = "ps"
workers = 2
servers = 2
bytes = 102000000
compute_s = 0.3
iterations = 16
placement = { workers = ["h1", "h2"], servers = ["h3", "h5"] }
[[jobs]]
id = "gpt2"
arch = "ring"
workers = 3
bytes = 1200000000
compute_s = 1.6
iterations = 4
placement = { workers = ["h0", "h4", "h5"] }
"#;

fn fixed_mix(gbps: u32, scale: &str, time: &str, sluice: &str) -> Scenario {
    scenario(&format!(
        "{time}\n[network]\nkind = \"star\"\nhosts = 6\ngpus = 4\ngbps = {gbps}\n[defaults]\ncompute_scale = {scale}\n\
         [scheduler]\nname = \"sluice\"\n[scheduler.sluice]\n{sluice}\n{FIXED_MIX}"
    ))
}

#[test]
fn the_small_world_shares_as_the_reference_does() {
    for (gbps, scale, expected) in [(10, "0.25", 9.897), (25, "1", 7.264)] {
        let jct = mean(&plain(&fixed_mix(gbps, scale, "", "")));
        assert!((jct - expected).abs() < 0.01, "{gbps} {scale}: {jct}");
    }
}

#[test]
#[ignore = "prints a table"]
fn measure_fixed_mix() {
    for (gbps, scale, fair, best) in
        [(10, "0.25", 9.897, 8.685), (10, "1", 12.291, 11.571), (25, "0.25", 4.339, 4.061), (25, "1", 7.264, 7.142)]
    {
        for name in ["sluice", "sluice:primal-dual", "sluice:fair"] {
            for (time, sluice) in [
                ("", "reserve = 0.05"),
                ("", "reserve = 0.0"),
                ("", "reserve = 0.0\ntables = \"nic\""),
                ("", "reserve = 0.0\nevents = false"),
                ("[time]\nmode = \"slot\"", "reserve = 0.0"),
            ] {
                let s = fixed_mix(gbps, scale, time, sluice);
                let began = std::time::Instant::now();
                let (jct, scheduler) = run(&s, name);
                let jct = mean(&jct);
                println!(
                    "{gbps} {scale} {name:20} {:40} {jct:.3} closes {:.2}; {} decisions, {} promotions, {:.2} s",
                    format!("{time} {sluice}").replace('\n', " "),
                    (fair - jct) / (fair - best),
                    counter(&scheduler, "decisions"),
                    counter(&scheduler, "promotions"),
                    began.elapsed().as_secs_f64(),
                );
            }
        }
    }
}
