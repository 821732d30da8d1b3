//! Threads change nothing, orders are searched, bounds hold, a stop is a stop.

use std::path::Path;

use sluice_report::simulated::document;
use sluice_scenario::Notation;

use super::*;

fn scenario(more: &str) -> Scenario {
    let job = |id: &str, gb: u32| {
        format!(
            "[[jobs]]\nid = \"{id}\"\nbytes = {gb}000000000\ncompute_s = 1\narch = \"ring\"\nworkers = 2\niterations = 2\n"
        )
    };
    let text = format!(
        "version = 1\nname = \"t\"\n{more}\n[network]\nkind = \"star\"\nhosts = 2\ngpus = 2\ngbps = 8\n[placement]\npolicy = \"spread\"\n{}{}",
        job("long", 4),
        job("short", 1)
    );
    Scenario::parse(&text, Notation::Toml, "t", Path::new(".")).unwrap_or_else(|e| panic!("{e}"))
}

fn policy(name: &str) -> Policy {
    name.parse().unwrap_or_else(|e| panic!("{e}"))
}

struct Collect(Vec<Option<Result<Ran, RunsError>>>);

impl Observer for Collect {
    fn look(&mut self, _: &[Running]) {}
    fn over(&mut self, task: usize, ran: Result<Ran, RunsError>) -> bool {
        self.0[task] = Some(ran);
        true
    }
}

fn run(scenario: &Scenario, names: &[&str], threads: usize, stop: bool) -> Vec<Option<Result<Ran, RunsError>>> {
    let tasks: Vec<Task<'_>> = names.iter().map(|n| Task { scenario, policy: policy(n), profile: false }).collect();
    check(&tasks).unwrap_or_else(|e| panic!("{e}"));
    let mut seen = Collect(names.iter().map(|_| None).collect());
    all(&tasks, NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN), &AtomicBool::new(stop), &mut seen);
    seen.0
}

fn results(scenario: &Scenario, names: &[&str], threads: usize) -> Vec<SimResult> {
    let ran = run(scenario, names, threads, false);
    ran.into_iter().map(|r| r.expect("over").unwrap_or_else(|e| panic!("{e}")).result).collect()
}

#[test]
fn every_scheduler_runs_and_threads_change_no_byte() {
    let s = scenario("scheduler = {name = \"fair\", static = {order = [\"short\", \"long\"]}}");
    let names = sluice_scenario::scheduler::NAMES.to_vec();
    let (one, four) = (results(&s, &names, 1), results(&s, &names, 4));
    assert_eq!(document(&s, &one).to_string(), document(&s, &four).to_string());
    let bound = one.iter().find(|r| r.result.policy == "bound").expect("a bound").result.figures.clone();
    assert!(bound.jct_mean_s > 0.0);
    for r in &one {
        let f = &r.result.figures;
        assert_eq!(f.jobs.len(), 2, "{}", r.result.policy);
        for (least, is) in [(bound.jct_mean_s, f.jct_mean_s), (bound.jct_max_s, f.jct_max_s)] {
            assert!(is >= least * (1.0 - 1e-9), "{}: {is} below {least}", r.result.policy);
        }
        for (least, is) in bound.jobs.iter().zip(&f.jobs) {
            assert!(is.figures.jct_s >= least.figures.jct_s * (1.0 - 1e-9), "{}", r.result.policy);
        }
    }
}

#[test]
fn the_search_finds_the_better_order_and_says_which() {
    let search = scenario("scheduler = {name = \"static\", static = {search = true}}");
    let worse = scenario("scheduler = {name = \"static\", static = {order = [\"long\", \"short\"]}}");
    let (best, given) = (results(&search, &["static"], 1), results(&worse, &["static"], 1));
    assert!(best[0].result.figures.jct_mean_s < given[0].result.figures.jct_mean_s);
    assert!(best[0].result.notes.iter().any(|n| n.ends_with("short, long")), "{:?}", best[0].result.notes);
}

#[test]
fn after_a_stop_nothing_begins() {
    let ran = run(&scenario(""), &["fair", "mcs"], 2, true);
    assert!(ran.iter().all(Option::is_none), "{ran:?}");
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_runs() {
    let s = scenario("scheduler = {name = \"mcs\", mcs = {order = \"lp\"}}");
    let error = check(&[Task { scenario: &s, policy: policy("mcs"), profile: false }]);
    assert!(error.is_err_and(|e| e.exit_status() == 2 && e.to_string().contains("primal-dual")));
}

/// Mean of the jobs' times over that of `fair`, of a shipped scenario with these seeds and options of `sluice`.
fn over_fair(file: &str, option: &str, seeds: std::ops::RangeInclusive<u32>) -> f64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(file);
    let ratio = |seed: u32| {
        let sets = [("seed", seed.to_string()), (option, "true".to_owned())];
        let sets = sets.map(|(key, value)| sluice_scenario::Set { key: key.into(), value });
        let scenario = Scenario::load_with(&path, &sets).unwrap_or_else(|e| panic!("{e}"));
        let time = results(&scenario, &["sluice", "fair"], 1).into_iter().map(|r| r.result.figures.jct_mean_s);
        let times: Vec<f64> = time.collect();
        times[0] / times[1]
    };
    let ratios: Vec<f64> = seeds.map(ratio).collect();
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

#[test]
fn routes_that_are_learned_are_worth_what_known_ones_are() {
    let option = |name: &str| over_fair("leaf-spine.toml", &format!("scheduler.sluice.{name}_routes"), 1..=6);
    let (learned, known) = (option("learned"), option("known"));
    assert!(learned <= 0.91 && (learned - known).abs() <= 0.01, "learned {learned:.3}, known {known:.3}");
}
