//! B1 and B2: what Sluice costs the jobs that it manages, and connections that it does not, by turns with and without it.

use sluice_report::stats;
use sluice_scenario::{Fault, FaultKind, NodeIx};
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::chaos::figure::{Figure, Unit, worst};
use crate::chaos::ground::{Ground, Unrun, sluice, struck};
use crate::experiment::beside;
use crate::experiment::capacity::queue;
use crate::fabric::FabricSpec;
use crate::job::Arch;
use crate::run::{FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan};

const RATE: Rate = Rate::mbps(200);
const HOSTS: usize = 4;
/// Student's t for 95 % of a mean of five.
const T: [f64; 6] = [f64::NAN, f64::NAN, 12.71, 4.303, 3.182, 2.776];

/// The jobs' patterns.
const PATTERNS: [&str; 4] = ["ring", "ps", "tree", "mixed"];
/// What breaks meanwhile. With `fair` nothing does, and daemons share equally.
const TROUBLES: [&str; 6] = ["none", "fair", "switch-gone", "restart-storm", "crash-loop", "loss"];
/// Those that are run where none are named.
const USUAL: [(&str, usize, &str); 3] = [("ring", 1, "none"), ("mixed", 3, "none"), ("mixed", 3, "restart-storm")];

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    pattern: &'static str,
    jobs: usize,
    trouble: &'static str,
}

impl Cell {
    fn all() -> impl Iterator<Item = Cell> {
        PATTERNS.into_iter().flat_map(|pattern| {
            [1, 3]
                .into_iter()
                .flat_map(move |jobs| TROUBLES.into_iter().map(move |trouble| Cell { pattern, jobs, trouble }))
        })
    }

    fn name(self) -> String {
        format!("{}/{}/{}", self.pattern, self.jobs, self.trouble)
    }

    /// P-3: the mean over jobs, and each job.
    fn bars(self) -> (f64, f64) {
        match (self.trouble, self.jobs) {
            ("switch-gone", _) => (1.05, 1.25),
            ("restart-storm" | "crash-loop", _) => (1.10, 1.25),
            (_, 1) => (1.02, 1.02),
            ("fair", _) => (1.05, 1.05),
            _ => (1.00, 1.25),
        }
    }

    /// Of the daemons.
    fn policy(self) -> Policy {
        match self.trouble {
            "fair" => Policy::Sluice { policy: Some("fair".into()), nic: false },
            _ => sluice(),
        }
    }

    fn plan(self, seconds: u64) -> (RunPlan, Vec<Placement>) {
        let mut fabric = FabricSpec::star(HOSTS, RATE, queue(RATE));
        if self.trouble == "loss" {
            fabric.cables.iter_mut().for_each(|cable| cable.loss = 0.01);
        }
        let bytes = Bytes(fabric.payload(RATE).over(Nanos::from_millis(200)).0);
        let pattern = |at: usize| match self.pattern {
            "mixed" => ["ring", "ps", "tree"][at % 3],
            other => other,
        };
        let (mut jobs, mut places) = (Vec::new(), Vec::new());
        for at in 0..self.jobs {
            let hosts = |n: usize| (0..n).map(|i| (at + i) % HOSTS).collect::<Vec<_>>();
            let (arch, workers, servers) = match pattern(at) {
                "ps" => (Arch::Ps, hosts(3)[..2].to_vec(), hosts(3)[2..].to_vec()),
                "tree" => (Arch::Tree, hosts(3), Vec::new()),
                _ => (Arch::Ring, hosts(3), Vec::new()),
            };
            jobs.push(JobPlan {
                arch,
                servers: servers.len(),
                compute: vec![Nanos::from_millis(200)],
                ..JobPlan::ring(format!("j{at}"), workers.len(), bytes, seconds * 1000 / 500)
            });
            places.push(Placement { workers, servers });
        }
        let (kind, target, every, lasts) = match self.trouble {
            "switch-gone" => (FaultKind::SwitchRestart, HOSTS, None, 3_600_000),
            "restart-storm" => (FaultKind::SwitchRestart, HOSTS, Some(2_000), 200),
            "crash-loop" => (FaultKind::DaemonKill, 0, Some(3_000), 300),
            _ => (FaultKind::SwitchRestart, HOSTS, None, 0),
        };
        let fault = |turn: u64| Fault {
            at: Nanos::from_millis(1_000 + turn * every.unwrap_or(0)),
            kind,
            target: NodeIx(target),
            lasts: Some(Nanos::from_millis(lasts)),
            slots: 0.0,
            before: turn,
        };
        let times = match (self.trouble, every) {
            ("none" | "fair" | "loss", _) => 0,
            (_, None) => 1,
            (_, Some(every)) => seconds * 1000 / every,
        };
        let faults = (0..times).map(fault).collect();
        (RunPlan { name: "slower".into(), fabric, jobs, faults, ..RunPlan::default() }, places)
    }

    /// How often its trouble came in a pair of runs, by what they note: packets lost in the one with fewer, faults in the one
    /// with Sluice, which alone has something that they hit.
    fn came(self, with: &[String], without: &[String]) -> usize {
        match self.trouble {
            "none" | "fair" => 0,
            "loss" => lost(with).min(lost(without)),
            "crash-loop" => struck(with, "daemon-kill of h0"),
            _ => struck(with, "switch-restart of s0"),
        }
    }

    /// How often it must come, at least, where so many faults are planned. Jobs that are done sooner see fewer of them.
    fn must_come(self, faults: usize) -> usize {
        match self.trouble {
            "none" | "fair" => 0,
            "loss" => 1,
            _ => faults.div_ceil(2),
        }
    }
}

/// Packets of the data network that a run lost, by what it notes.
fn lost(notes: &[String]) -> usize {
    let packets = |note: &String| {
        let (lost, _) = note.strip_suffix(" packets were dropped at random")?.split_once(" of ")?;
        lost.parse::<usize>().ok()
    };
    notes.iter().filter_map(packets).sum()
}

/// Those that were asked for.
fn asked(cells: &[String]) -> Result<Vec<Cell>, Unrun> {
    if cells.is_empty() {
        return Ok(USUAL.map(|(pattern, jobs, trouble)| Cell { pattern, jobs, trouble }).into());
    }
    if cells.iter().any(|cell| cell == "all") {
        return Ok(Cell::all().collect());
    }
    let named = |name: &String| {
        let found = Cell::all().find(|cell| cell.name() == *name);
        let all: Vec<String> = Cell::all().map(Cell::name).collect();
        found.ok_or_else(|| RunError::Plan(format!("no cell {name:?}; allowed are all, {}", all.join(", "))).into())
    };
    cells.iter().map(named).collect()
}

/// Iteration of each job, s, and what the run notes.
fn iterations(
    ground: &Ground<'_>,
    plan: &RunPlan,
    places: &[Placement],
    policy: &Policy,
) -> Result<(Vec<f64>, Vec<String>), Unrun> {
    let bench = ground.bench("slower")?;
    let run = bench.run(plan, &mut FixedQueue::new(places.to_vec()), policy, "run")?;
    let all: Vec<f64> = run.jobs.iter().map(|job| job.figures.iteration_s).collect();
    if all.len() != plan.jobs.len() {
        let (seen, jobs) = (all.len(), plan.jobs.len());
        return Err(RunError::Plan(format!("{seen} of {jobs} jobs were measured under {policy}")).into());
    }
    Ok((all, run.notes))
}

/// The mean of ratios and the upper end of its 95 % interval.
fn upper(ratios: &[f64]) -> (f64, f64) {
    let mean = stats::mean(ratios);
    let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
    let spread = (squares / (ratios.len().saturating_sub(1)).max(1) as f64).sqrt();
    let t = T.get(ratios.len()).copied().unwrap_or(1.96);
    (mean, mean + if ratios.len() < 2 { 0.0 } else { t * spread / (ratios.len() as f64).sqrt() })
}

/// B1.
/// Promises: P-3
pub fn benefit(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let mut figures = Vec::new();
    let (pairs, seconds) = ground.sized((5, 12), (1, 4));
    for cell in asked(ground.cells)? {
        let (plan, places) = cell.plan(seconds);
        let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); cell.jobs];
        let (mut means, mut came) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            let plain = Policy::Fair(Some("cubic".into()));
            // Which comes first alternates, so that what changes on the machine falls on both.
            let (with, without) = if pair % 2 == 0 {
                let without = iterations(ground, &plan, &places, &plain)?;
                (iterations(ground, &plan, &places, &cell.policy())?, without)
            } else {
                let with = iterations(ground, &plan, &places, &cell.policy())?;
                (with, iterations(ground, &plan, &places, &plain)?)
            };
            let ((with, notes), (without, other_notes)) = (with, without);
            came.push(cell.came(&notes, &other_notes));
            means.push(stats::mean(&with) / stats::mean(&without));
            // Of each job there is one figure in both.
            for (at, (with, without)) in with.iter().zip(&without).enumerate() {
                ratios[at].push(with / without);
            }
        }
        let (name, (bar, each)) = (cell.name(), cell.bars());
        let (mean, high) = upper(&means);
        figures.push(
            Figure::at_most(format!("{name}: iteration over that without, upper end of 95 %"), high, Unit::Ratio, bar)
                .noted(format!("mean {mean:.3} of {pairs} pairs by turns")),
        );
        if cell.jobs > 1 {
            let slowest = worst(ratios.iter().map(|of| upper(of).1), f64::max);
            figures.push(Figure::at_most(format!("{name}: the same of the worst job"), slowest, Unit::Ratio, each));
        }
        let must = cell.must_come(plan.faults.len());
        if must > 0 {
            let least = came.iter().min().copied().unwrap_or(0);
            let what = format!("{name}: times that its trouble came, fewest of {pairs} pairs");
            figures.push(Figure::at_least(what, least as f64, Unit::Count, must as f64));
        }
    }
    Ok(figures)
}

/// B2: an unmanaged CUBIC flow.
/// Promises: P-14
pub fn beside_cubic(ground: &Ground<'_>) -> Result<Vec<Figure>, Unrun> {
    let bench = ground.bench("beside")?;
    let settings =
        beside::Settings { rate: Rate::mbps(200), seconds: ground.sized(25, 12), policy: sluice(), flows: vec![1, 4] };
    let results = beside::beside(&bench, &settings)?;
    let managed = results.iter().filter(|result| matches!(result.policy.parse(), Ok(Policy::Sluice { .. })));
    // One managed flow is what another CUBIC flow would be. Of several an equal share is less, and the bar with it.
    let figure = |result: &beside::BesideResult| {
        let share = 2.0 / (result.flows as f64 + 1.0);
        Figure::at_least(
            format!("rate of a CUBIC flow beside {} managed, over that beside one CUBIC flow", result.flows),
            result.ratio,
            Unit::Ratio,
            0.9 * share.min(1.0),
        )
    };
    Ok(managed.map(figure).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names_and_plans() {
        let all: Vec<Cell> = Cell::all().collect();
        assert_eq!(all.len(), 48);
        for cell in &all {
            let (plan, places) = cell.plan(12);
            assert_eq!((plan.jobs.len(), places.len()), (cell.jobs, cell.jobs), "{}", cell.name());
            assert_eq!(plan.faults.is_empty(), matches!(cell.trouble, "none" | "fair" | "loss"));
            assert_eq!(asked(&[cell.name()]).ok(), Some(vec![*cell]));
        }
        assert_eq!(asked(&[]).map(|cells| cells.len()).ok(), Some(3));
        assert_eq!(asked(&["all".into()]).map(|cells| cells.len()).ok(), Some(48));
        let refused = asked(&["ring/2/none".into()]).map_err(|why| why.to_string());
        assert!(refused.is_err_and(|why| why.contains("ring/1/none")));
    }

    #[test]
    fn trouble_is_believed_by_what_a_run_notes() {
        let cell = |trouble| Cell { pattern: "ring", jobs: 1, trouble };
        let notes = [
            "3.0 s: switch-restart of s0 begins",
            "switch-restart of s0 came 5 more times",
            "17 of 900 packets were dropped at random",
            "4 of 9 packets between daemons and switches were dropped at random",
        ]
        .map(str::to_owned);
        assert_eq!(cell("restart-storm").came(&notes, &[]), 6);
        assert_eq!(cell("crash-loop").came(&notes, &notes), 0);
        assert_eq!((cell("loss").came(&notes, &notes), cell("loss").came(&notes, &[])), (17, 0));
        let must = |trouble, faults| cell(trouble).must_come(faults);
        assert_eq!([must("none", 0), must("loss", 0), must("switch-gone", 1), must("restart-storm", 6)], [0, 1, 1, 3]);
    }

    #[test]
    fn the_upper_end_grows_with_the_spread() {
        let (mean, high) = upper(&[1.0, 1.0, 1.0, 1.0, 1.0]);
        assert!((mean - 1.0).abs() < 1e-12 && (high - 1.0).abs() < 1e-12);
        let (mean, high) = upper(&[0.9, 1.1, 0.9, 1.1, 1.0]);
        assert!((mean - 1.0).abs() < 1e-12 && high > 1.1, "{high}");
        assert!(upper(&[1.5]).1 > 1.4);
    }
}
