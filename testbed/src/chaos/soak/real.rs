//! The parts with real daemons: many of them under faults, and one with many flows. Readings of every process all along.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sluice_schedule::{Nanos, Rate};
use sluice_wire::snapshot::{Counters, Snapshot};

use super::slope::{Reading, Series};
use super::{Part, Shown};
use crate::chaos::figure::{Figure, Unit};
use crate::chaos::ground::{
    Ground, HOSTS, OF_MANY, Setting, Stage, Unrun, must_be_managed, must_be_managed_soon, sluice,
};
use crate::chaos::inventory::{descriptors, rss_mib, threads};
use crate::chaos::rows::{drawn, strike, wide};
use crate::experiment::live::Live;
use crate::job::JobFile;
use crate::run::RunError;

/// Between two readings.
const EVERY: Duration = Duration::from_secs(5);
/// Between two faults.
const CALM: Duration = Duration::from_secs(15);
/// For most of thousands of flows to be managed.
const MINUTE: Duration = Duration::from_secs(60);
/// L6: memory grows by no more than this in an hour.
const SLOPE: f64 = 0.5;
/// Long, so that two processors carry fifty daemons.
const SLOT: Nanos = Nanos::from_millis(200);

/// Processes that are read, and the counters that they had.
struct Readings {
    began: Instant,
    series: Vec<Series>,
    counters: Vec<Option<Counters>>,
    /// Times that a counter was smaller than before, in one life of a process.
    backwards: usize,
}

impl Readings {
    fn new(hosts: usize) -> Readings {
        let name = |host: usize| if host < hosts { format!("sluiced of h{host}") } else { "sluice-switch".into() };
        let series = (0..=hosts).map(|at| Series { name: name(at), readings: Vec::new() }).collect();
        Readings { began: Instant::now(), series, counters: vec![None; hosts], backwards: 0 }
    }

    fn take(&mut self, live: &Live, switch: Option<u32>) {
        let t_s = self.began.elapsed().as_secs_f64();
        let hosts = self.counters.len();
        for (at, series) in self.series.iter_mut().enumerate() {
            let pid = if at < hosts { Some(live.daemons.pid(at)) } else { switch };
            let read = pid.and_then(|pid| Some((rss_mib(pid)?, descriptors(pid)?, threads(pid)?)));
            if let Some((rss_mib, descriptors, threads)) = read {
                series.readings.push(Reading { t_s, rss_mib, descriptors, threads });
            }
        }
        for (host, before) in self.counters.iter_mut().enumerate() {
            let text = live.daemons.get(host, "/api/v1/snapshot").unwrap_or_default();
            let Ok(seen) = serde_json::from_str::<Snapshot>(&text) else { continue };
            self.backwards += before.as_ref().map_or(0, |before| smaller(before, &seen.counters));
            *before = Some(seen.counters);
        }
    }

    /// A process began anew: what it counts begins at nothing.
    fn restarted(&mut self, host: usize) {
        if let Some(counters) = self.counters.get_mut(host) {
            *counters = None;
        }
    }

    /// Of the processes that lived all along.
    fn figures(&self, whole: impl Fn(usize) -> bool) -> Vec<Figure> {
        let lived: Vec<&Series> = self.series.iter().enumerate().filter(|(at, _)| whole(*at)).map(|(_, s)| s).collect();
        let steepest = lived.iter().max_by(|a, b| a.memory().at_least().total_cmp(&b.memory().at_least()));
        let mut figures = Vec::new();
        // Of none nothing is known, which is beyond the bar.
        let least = steepest.map_or(f64::NAN, |steepest| steepest.memory().at_least());
        let noted = steepest.map(|steepest| {
            let slope = steepest.memory();
            format!("{}: {:.2} ± {:.2} MiB/h; {} processes", steepest.name, slope.per_hour, slope.error, lived.len())
        });
        figures.push(
            Figure::at_most("memory, steepest of all: grows at least", least, Unit::MibPerHour, SLOPE)
                .noted(noted.unwrap_or_default()),
        );
        let most = |of: fn(&Reading) -> usize| {
            let widest =
                lived.iter().map(|series| series.range(of)).map(|(least, most)| most.saturating_sub(least.min(most)));
            widest.max().unwrap_or(0) as f64
        };
        // A reading may fall into a request of ours, or a connection that is being made.
        figures.push(Figure::at_most(
            "descriptors, most less least of one process",
            most(|r| r.descriptors),
            Unit::Count,
            8.0,
        ));
        figures.push(Figure::at_most("threads, most less least of one process", most(|r| r.threads), Unit::Count, 2.0));
        figures.push(Figure::exactly("times that a counter was smaller than before", self.backwards, 0));
        figures
    }
}

/// How many counters are smaller than they were.
fn smaller(before: &Counters, after: &Counters) -> usize {
    let numbers = |counters: &Counters| match serde_json::to_value(counters) {
        Ok(serde_json::Value::Object(all)) => {
            all.into_iter().filter_map(|(key, value)| Some((key, value.as_u64()?))).collect()
        }
        _ => BTreeMap::new(),
    };
    let (before, after): (BTreeMap<String, u64>, BTreeMap<String, u64>) = (numbers(before), numbers(after));
    before.iter().filter(|(name, before)| after.get(*name).is_some_and(|after| after < before)).count()
}

/// What was seen of a part that somebody stopped is kept, and is no pass.
fn unfinished(ground: &Ground<'_>) -> String {
    let stopped = ground.bench.stop.load(Ordering::Relaxed);
    if stopped { RunError::Interrupted.to_string() } else { String::new() }
}

/// Many daemons; faults hit the first few hosts and the switch, and the others live all along.
pub(super) fn daemons(ground: &Ground<'_>, hosts: usize) -> Result<Shown, Unrun> {
    let (plan, place) = wide(hosts, SLOT);
    let bench = ground.bench("soak-daemons")?;
    let live = Live::start(&bench, &plan, &place, &sluice(), 1000)?;
    let mut stage = Stage { live, plan, dir: bench.dir.join("live") };
    stage.live.run_for(Duration::from_secs(30))?;
    let mut readings = Readings::new(hosts);
    let end = Instant::now() + Duration::from_secs_f64(ground.minutes * 60.0);
    let count = (ground.minutes * 60.0 / CALM.as_secs_f64()).ceil().max(1.0) as u32;
    let rounds = stage.live.iterations.len();
    let mut struck = 0;
    for fault in drawn(ground.seed, count) {
        strike(&mut stage, fault)?;
        readings.restarted(fault.host);
        struck += 1;
        let calm = Instant::now() + CALM;
        while Instant::now() < calm {
            readings.take(&stage.live, Some(stage.live.daemons.switch_pid(0)));
            stage.live.run_for(EVERY)?;
            stage.live.samples.clear();
        }
        if Instant::now() > end || ground.bench.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let rounds = stage.live.iterations.len() - rounds;
    let ran = readings.began.elapsed().as_secs_f64();
    // The switch is restarted by faults, as are the hosts that they hit.
    let mut figures = readings.figures(|at| (HOSTS..hosts).contains(&at));
    figures.push(Figure::shown(format!("faults, seed {}", ground.seed), f64::from(struck), Unit::Count));
    figures.push(Figure::at_least("iterations of the job's members", rounds as f64, Unit::Count, 1.0));
    figures.push(Figure::shown("time", ran, Unit::Seconds));
    let answering = (0..hosts).filter(|host| stage.snapshot(*host).is_some()).count();
    figures.push(Figure::exactly("daemons that answer at the end", answering, hosts));
    Ok(Shown { part: Part::Daemons, figures, series: readings.series, why: unfinished(ground) })
}

/// One daemon with as many flows as its table has rows for.
pub(super) fn flows(ground: &Ground<'_>, flows: usize) -> Result<Shown, Unrun> {
    let setting = Setting { sample_ms: 2000, ..Setting::of("soak-flows", flows, Rate::mbps(2000)) };
    let (mut plan, place) = setting.plan();
    for job in &mut plan.jobs {
        job.bytes = plan.fabric.payload(setting.rate).over(Nanos::from_millis(400));
        job.compute = vec![Nanos::from_millis(200)];
        job.iterations = JobFile::MAX_ITERATIONS;
    }
    let bench = ground.bench(&setting.name)?;
    let live = Live::start(&bench, &plan, &place, &sluice(), setting.sample_ms)?;
    let mut stage = Stage { live, plan, dir: bench.dir.join("live") };
    stage.many_captured(must_be_managed_soon(flows), MINUTE)?;
    stage.live.run_for(Duration::from_secs(20))?;
    let mut readings = Readings::new(HOSTS);
    let end = Instant::now() + Duration::from_secs_f64(ground.minutes * 60.0);
    let rows =
        |stage: &Stage| stage.snapshot(0).map(|seen| (seen.enforcement.rows_used, seen.counters.released_deadline));
    let gone = || RunError::Plan("the daemon of h0 does not answer".into());
    let before = rows(&stage).ok_or_else(gone)?;
    while Instant::now() < end && !ground.bench.stop.load(Ordering::Relaxed) {
        readings.take(&stage.live, None);
        stage.live.run_for(EVERY)?;
        stage.live.samples.clear();
        stage.live.iterations.clear();
    }
    let after = rows(&stage).ok_or_else(gone)?;
    // Each of the job's members tells of its flows within this time.
    stage.live.run_for(EVERY)?;
    let mut figures = readings.figures(|at| at < HOSTS);
    figures.push(
        Figure::at_least(
            format!("flows managed at the end, of {flows}"),
            stage.driven() as f64,
            Unit::Count,
            must_be_managed(flows) as f64,
        )
        .noted(OF_MANY),
    );
    figures.push(Figure::shown("rows of the table in use at the end", after.0 as f64, Unit::Count));
    figures.push(Figure::at_most("rows more than at first", after.0.saturating_sub(before.0) as f64, Unit::Count, 0.0));
    figures.push(Figure::shown("orders that ran out", (after.1 - before.1) as f64, Unit::Count));
    figures.push(Figure::shown("time", readings.began.elapsed().as_secs_f64(), Unit::Seconds));
    Ok(Shown { part: Part::Flows, figures, series: readings.series, why: unfinished(ground) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_goes_back_is_found() {
        let before = Counters { slots: 7, flows_opened: 3, ..Counters::default() };
        let mut after = before.clone();
        after.slots = 8;
        assert_eq!(smaller(&before, &after), 0);
        after.flows_opened = 2;
        assert_eq!(smaller(&before, &after), 1);
    }
}
