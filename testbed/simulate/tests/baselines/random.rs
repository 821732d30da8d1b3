//! Random scenarios under every scheduler: nothing stalls, nothing is over full, nobody beats the bound, and the same
//! inputs give the same run.

use proptest::prelude::*;
use sluice_scenario::{Policy, Scenario};
use sluice_schedule::Nanos;
use sluice_simulate::policy::bound::{JobWork, bounds};
use sluice_simulate::policy::build;
use sluice_simulate::{Change, JobPhase, Needs, Orders, Outcome, Rounds, Scheduler, Watch, World, run};

use super::{jcts, mean, scenario};

/// Schedulers with the options that make another one of them.
const POLICIES: [(&str, &str); 20] = [
    ("fair", ""),
    ("fair", "efficiency = 0.8"),
    ("static", "order = [\"j2\", \"j0\"]"),
    ("mcs", ""),
    ("mcs", "ring = \"chunk\"\nscope = \"server\""),
    ("mcs", "delay_ms = 7"),
    ("ccml", ""),
    ("ccml", "variant = \"unfair\""),
    ("cassini", ""),
    ("mltcp", ""),
    ("sincronia", ""),
    ("varys", ""),
    ("oracle", ""),
    ("oracle", "fair_floor_alone = 0.5\npromote_kappa = 1"),
    ("aalo", ""),
    ("aalo", "sharing = \"weighted\""),
    ("echelonflow", ""),
    ("crux", ""),
    ("crux", "paths = false\nlevels = 2"),
    ("crux", "correction = true\nlevels = 3"),
];

/// Passes everything on to a scheduler, and looks at the rates on the way.
struct Watched<'a> {
    inner: Box<dyn Scheduler>,
    over: &'a mut Vec<String>,
}

impl Scheduler for Watched<'_> {
    fn rounds(&self) -> Rounds {
        self.inner.rounds()
    }
    fn decide(&mut self, world: &World<'_>, changes: &[Change], orders: &mut Orders) {
        let mut used = vec![0.0; world.capacity.len()];
        for flow in world.flows.iter().filter(|f| f.active()) {
            flow.path.iter().for_each(|l| used[l.0] += flow.rate);
        }
        for (link, (used, capacity)) in used.iter().zip(&world.capacity).enumerate() {
            if *used > capacity * (1.0 + 1e-9) {
                self.over.push(format!("link {link}: {used} of {capacity} at {}", world.now));
            }
        }
        for &job in &world.running {
            let state = &world.jobs[job.0];
            if state.phase == JobPhase::Ended {
                self.over.push(format!("{job:?} runs and has ended"));
            }
        }
        self.inner.decide(world, changes, orders);
    }
    fn wake(&self) -> Option<Nanos> {
        self.inner.wake()
    }
    fn efficiency(&self) -> f64 {
        self.inner.efficiency()
    }
    fn needs(&self) -> Needs {
        Needs { progress: true, ..self.inner.needs() }
    }
    fn counters(&self) -> Vec<(&'static str, f64)> {
        self.inner.counters()
    }
}

fn outcome(policy: &str, scenario: &Scenario) -> Result<(Outcome, Vec<String>), String> {
    let policy: Policy = policy.parse()?;
    let inner = build(&policy, scenario).map_err(|e| e.to_string())?;
    let mut over = Vec::new();
    let outcome = run(scenario, &mut Watched { inner, over: &mut over }, &Watch::default());
    Ok((outcome.map_err(|e| e.to_string())?, over))
}

fn job(n: usize) -> impl Strategy<Value = String> {
    let arch = prop_oneof![
        (2u32..5).prop_map(|w| format!("arch = \"ring\"\nworkers = {w}")),
        (1u32..4, 1u32..3).prop_map(|(w, s)| format!("arch = \"ps\"\nworkers = {w}\nservers = {s}")),
        (2u32..5).prop_map(|w| format!("arch = \"tree\"\nworkers = {w}")),
    ];
    let times = (1u64..800, 0u64..900, 1u32..5, 0u64..2000);
    let rest = (1u32..5, prop::bool::weighted(0.3), prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (arch, times, rest).prop_map(move |(arch, (mb, compute, iterations, arrival), (weight, after, overlap, jitter))| {
        let mut text = format!(
            "[[jobs]]\nid = \"j{n}\"\n{arch}\nbytes = {}\ncompute_s = \"{compute}/1000\"\niterations = {iterations}\n\
             arrival_s = \"{arrival}/1000\"\nweight = {weight}\n",
            mb * 1_000_000 + n as u64
        );
        text += if after { "dependency = \"start-after\"\n" } else { "" };
        text += if overlap { "overlap = 0.4\n" } else { "" };
        text += if jitter { "compute_jitter = 0.2\n" } else { "" };
        text
    })
}

fn scenarios() -> impl Strategy<Value = String> {
    let network = prop::sample::select(vec![
        "kind = \"star\"\nhosts = 4\ngbps = 8\n",
        "kind = \"three-tier\"\nservers_per_rack = 2\nracks_per_edge = 2\nedges = 2\ngbps = [8, 8, 8]\n",
        "kind = \"three-tier\"\nservers_per_rack = 2\nracks_per_edge = 2\nedges = 2\ngbps = [8, 8, 4]\nuplinks = [2, 2]\n",
    ]);
    let placement = prop::sample::select(vec!["packed", "spread", "random"]);
    let mode = prop::sample::select(vec!["event", "event", "slot", "paper-slot"]);
    let jobs = (1usize..8).prop_flat_map(|n| (0..n).map(job).collect::<Vec<_>>());
    (network, placement, mode, jobs, any::<u16>(), prop::bool::weighted(0.3)).prop_map(
        |(network, placement, mode, jobs, seed, cross)| {
            let cross = if cross { "[cross_traffic]\nevery_s = 0.5\nmin_s = 0.1\nmax_s = 0.4\n" } else { "" };
            format!(
                "version = 1\nname = \"t\"\nseed = {seed}\n[time]\nmode = \"{mode}\"\nslot_ms = 20\nmax_events = 1000000\n[network]\n{network}gpus = 32\n\
                 [placement]\npolicy = \"{placement}\"\n{cross}{}",
                jobs.concat()
            )
        },
    )
}

fn with(text: &str, policy: &str, options: &str) -> Scenario {
    // The oracle applies the product's rule, with the product's settings.
    let whose = if policy == "oracle" { "sluice" } else { policy };
    scenario(&format!("{text}[scheduler]\nname = \"{policy}\"\n[scheduler.{whose}]\n{options}\n"))
}

/// The options name jobs that a scenario may not have.
fn fitting(options: &str, text: &str) -> String {
    if text.contains("id = \"j2\"") { options.to_owned() } else { options.replace("\"j2\", ", "") }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Properties 2, 4 and 13, and the same run again.
    #[test]
    fn every_scheduler_ends_every_job(text in scenarios()) {
        for (policy, options) in POLICIES {
            let s = with(&text, policy, &fitting(options, &text));
            let (o, over) = outcome(policy, &s).map_err(|e| TestCaseError::fail(format!("{policy} {options}: {e}")))?;
            prop_assert!(over.is_empty(), "{} {}: {:?}", policy, options, over);
            let works: Vec<JobWork> =
                o.jobs.iter().enumerate().filter_map(|(i, j)| JobWork::of(&s, i, &j.placement)).collect();
            prop_assert_eq!(works.len(), s.jobs.len());
            for (j, (log, work)) in o.jobs.iter().zip(&works).enumerate() {
                let (Some(started), Some(ended)) = (log.started, log.ended) else {
                    return Err(TestCaseError::fail(format!("{policy} {options}: job {j} did not end")));
                };
                let run_time = ended.minus(started).as_secs_f64();
                // Paths that crux chooses are not those of the bound.
                if policy != "crux" {
                    prop_assert!(run_time >= work.run_time_s() - 1e-6, "{policy} {options}: {run_time} {work:?}");
                }
            }
            if policy != "crux" {
                let b = bounds(&works);
                let last = o.jobs.iter().filter_map(|j| j.ended).max().unwrap_or_default().as_secs_f64();
                prop_assert!(last >= b.last_end_s - 1e-6, "{policy} {options}: {last} {b:?}");
                prop_assert!(mean(&jcts(&o)) >= b.mean_jct_s - 1e-6, "{policy} {options}: {b:?}");
            }
            let (again, _) = outcome(policy, &s).map_err(TestCaseError::fail)?;
            prop_assert!(o == again, "{} {}: another run", policy, options);
        }
    }
}

/// Twenty jobs that wait for GPUs, in one example of each mode.
#[test]
fn with_a_queue_for_gpus() {
    for mode in ["event", "slot", "paper-slot"] {
        let job = |n: u64| {
            let arch = ["arch = \"ring\"\nworkers = 3", "arch = \"ps\"\nworkers = 2\nservers = 2"][n as usize % 2];
            format!(
                "[[jobs]]\nid = \"j{n}\"\n{arch}\nbytes = {}\ncompute_s = \"{}/100\"\niterations = {}\narrival_s = \"{}/10\"\n",
                (1 + n * 7 % 11) * 50_000_000,
                5 + n * 13 % 40,
                3 + n % 5,
                n * 3
            )
        };
        let text = format!(
            "version = 1\nname = \"t\"\n[time]\nmode = \"{mode}\"\nmax_events = 1000000\n[network]\nkind = \"star\"\nhosts = 6\ngpus = 2\ngbps = 10\n\
             [placement]\npolicy = \"spread\"\none_per_host = true\nserver_gpus = 0\n{}",
            (0..20).map(job).collect::<String>()
        );
        for (policy, options) in POLICIES {
            let (o, over) =
                outcome(policy, &with(&text, policy, options)).unwrap_or_else(|e| panic!("{policy} {options}: {e}"));
            assert!(over.is_empty(), "{policy} {options}: {over:?}");
            assert!(o.jobs.iter().all(|j| j.ended.is_some()), "{policy} {options}");
        }
    }
}
