//! Rows of a scoreboard: what each policy took for a case under a load, and policies against each other over pairs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::paired::{Interval, Paired, bootstrap, deviation};
use super::record::{Bound, Load, Record};
use crate::stats::{is_baseline, mean};

/// Policies in the order in which tables and pictures have them; others follow by name.
pub const ORDER: [&str; 6] = ["fair:cubic", "fair:reno", "fair:bbr", "fair:mltcp", "sluice", "sluice:fair"];
/// Fewer pairs say little about chance.
const ENOUGH: usize = 3;
/// A machine whose timers are later than this at the 99th percentile makes figures doubtful, µs.
const LATE_US: u64 = 5_000;

/// Everything that follows from records.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Board {
    /// One a case and load, in the records' order.
    pub rows: Vec<Row>,
    /// What makes the figures doubtful, in sentences.
    pub doubts: Vec<String>,
}

/// A case under a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Name of the case.
    pub case: String,
    /// What else the machine did.
    pub load: Load,
    /// Has it traffic that nobody manages?
    pub unmanaged: bool,
    /// Those that ran, in order of [`ORDER`].
    pub policies: Vec<PolicyFigures>,
    /// The ordinary TCP with the lowest mean, over the turns that all of them ran in.
    pub best_tcp: Option<String>,
    /// Who is compared with whom.
    pub against: Vec<Against>,
    /// Runs, for the picture.
    pub dots: Vec<Dot>,
}

/// One policy over its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PolicyFigures {
    /// The policy.
    pub policy: String,
    /// How many runs there are.
    pub runs: usize,
    /// Mean over runs of the mean JCT, seconds.
    pub jct_mean_s: f64,
    /// Its sample deviation; `None` of one run.
    pub jct_sd_s: Option<f64>,
    /// Mean over runs of the 99th percentile of JCT, seconds.
    pub jct_p99_s: f64,
    /// What unmanaged traffic received, bytes a second; `None` where there is none.
    pub unmanaged_bytes_s: Option<f64>,
    /// Segments retransmitted a run.
    pub retransmits: f64,
    /// Processor time of all daemons, seconds a run; `None` where none ran.
    pub daemons_s: Option<f64>,
    /// The same of the switches.
    pub switches_s: Option<f64>,
}

/// A policy against another, over the turns in which both ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Against {
    /// The policy that is compared.
    pub policy: String,
    /// What it is compared with.
    pub baseline: String,
    /// Mean JCT over that of the baseline, pair by pair.
    pub paired: Paired,
    /// The turn of the worst pair.
    pub worst_turn: usize,
    /// Mean p99 over that of the baseline.
    pub p99_ratio: f64,
    /// The job that lost most: its id.
    pub worst_job: String,
    /// Its mean JCT over its own beside the baseline.
    pub worst_job_ratio: f64,
    /// What unmanaged traffic received over what it received beside the baseline; `None` where there is none.
    pub unmanaged_ratio: Option<f64>,
    /// How far it went from the baseline to the best order; `None` where that is not known.
    pub way: Option<Way>,
}

/// How far a policy goes from a baseline to the best order of the simulator: (T − T_policy)/(T − T_order).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Way {
    /// The part; 1 is all of it, negative is the other direction.
    pub part: f64,
    /// Where it lies, by a bootstrap over pairs.
    pub interval: Option<Interval>,
    /// Mean JCT of the order, seconds.
    pub order_s: f64,
    /// Which order.
    pub by: String,
    /// The order's routes are the simulator's, not the kernel's.
    pub own_routes: bool,
}

/// One run in the picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dot {
    /// The policy that ran.
    pub policy: String,
    /// In which turn.
    pub turn: usize,
    /// Unmanaged bytes a second, where the case has such traffic.
    pub unmanaged_bytes_s: Option<f64>,
    /// Mean JCT, seconds.
    pub jct_mean_s: f64,
}

/// Place of a policy in tables.
pub(super) fn place(policy: &str) -> usize {
    ORDER.iter().position(|known| *known == policy).unwrap_or(ORDER.len())
}

impl Board {
    /// Of all records and bounds that there are.
    pub fn of(records: &[Record], bounds: &[Bound]) -> Board {
        let mut keys: Vec<(&str, Load)> = Vec::new();
        for record in records {
            if !keys.contains(&(&record.case, record.load)) {
                keys.push((&record.case, record.load));
            }
        }
        let row = |(case, load): (&str, Load)| {
            let mine: Vec<&Record> = records.iter().filter(|r| r.case == case && r.load == load).collect();
            row(case, load, &mine, bounds.iter().find(|b| b.case == case))
        };
        let rows: Vec<Row> = keys.into_iter().map(row).collect();
        let doubts = doubts(records, &rows);
        Board { rows, doubts }
    }

    /// All policies of all rows, in order.
    pub fn policies(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.rows.iter().flat_map(|r| r.policies.iter().map(|p| p.policy.as_str())).collect();
        names.sort_by_key(|name| (place(name), *name));
        names.dedup();
        names
    }
}

impl Row {
    /// The figures of a policy.
    pub fn of(&self, policy: &str) -> Option<&PolicyFigures> {
        self.policies.iter().find(|p| p.policy == policy)
    }

    /// A policy against the best ordinary TCP.
    pub fn against_best(&self, policy: &str) -> Option<&Against> {
        self.against.iter().find(|a| a.policy == policy && Some(&a.baseline) == self.best_tcp.as_ref())
    }
}

fn row(case: &str, load: Load, records: &[&Record], bound: Option<&Bound>) -> Row {
    let mut runs: BTreeMap<(usize, &str), Vec<&Record>> = BTreeMap::new();
    for record in records {
        runs.entry((place(&record.policy), &record.policy)).or_default().push(record);
    }
    let runs: Vec<(&str, Vec<&Record>)> = runs.into_iter().map(|((_, policy), runs)| (policy, runs)).collect();
    let best_tcp = best_tcp(&runs);
    let names: Vec<&str> = runs.iter().map(|(policy, _)| *policy).collect();
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    if let Some(best) = best_tcp {
        pairs.extend(names.iter().filter(|policy| !is_baseline(policy)).map(|policy| (*policy, best)));
    }
    for other in ["fair:mltcp", "sluice:fair"] {
        if names.contains(&"sluice") && names.contains(&other) {
            pairs.push(("sluice", other));
        }
    }
    let unmanaged = records.iter().any(|r| r.unmanaged);
    let bound = bound.filter(|_| !unmanaged);
    let of = |name: &str| runs.iter().find(|(policy, _)| *policy == name).map_or(&[][..], |(_, runs)| runs);
    let compared = |(policy, baseline): (&str, &str)| {
        against(
            (policy, of(policy)),
            (baseline, of(baseline)),
            bound,
            &format!("way|{case}|{load}|{policy}|{baseline}"),
        )
    };
    Row {
        case: case.to_owned(),
        load,
        unmanaged,
        best_tcp: best_tcp.map(str::to_owned),
        against: pairs.into_iter().filter_map(compared).collect(),
        policies: runs.iter().map(|(policy, runs)| figures(policy, runs)).collect(),
        dots: records.iter().map(|r| dot(r)).collect(),
    }
}

fn rate(record: &Record) -> Option<f64> {
    let (bytes, seconds) = (record.run.cross_bytes as f64, record.run.cross_interval_s);
    (record.unmanaged && seconds > 0.0).then(|| bytes / seconds)
}

fn dot(record: &Record) -> Dot {
    Dot {
        policy: record.policy.clone(),
        turn: record.turn,
        unmanaged_bytes_s: rate(record),
        jct_mean_s: record.run.jct_mean_s,
    }
}

fn over(runs: &[&Record], of: impl Fn(&Record) -> f64) -> f64 {
    mean(&runs.iter().map(|r| of(r)).collect::<Vec<_>>())
}

fn figures(policy: &str, runs: &[&Record]) -> PolicyFigures {
    let jct: Vec<f64> = runs.iter().map(|r| r.run.jct_mean_s).collect();
    let rates: Vec<f64> = runs.iter().filter_map(|r| rate(r)).collect();
    let spent = |seconds: f64| (seconds > 0.0).then_some(seconds);
    PolicyFigures {
        policy: policy.to_owned(),
        runs: runs.len(),
        jct_mean_s: mean(&jct),
        jct_sd_s: deviation(&jct),
        jct_p99_s: over(runs, |r| r.run.jct_p99_s),
        unmanaged_bytes_s: (!rates.is_empty()).then(|| mean(&rates)),
        retransmits: over(runs, |r| r.run.retransmits as f64),
        daemons_s: spent(over(runs, |r| r.run.cpu.daemons)),
        switches_s: spent(over(runs, |r| r.run.cpu.switches)),
    }
}

/// The ordinary TCP with the lowest mean: over the turns that all of them ran in, or where there is none over all.
fn best_tcp<'a>(runs: &[(&'a str, Vec<&Record>)]) -> Option<&'a str> {
    let plain: Vec<&(&str, Vec<&Record>)> = runs.iter().filter(|(policy, _)| is_baseline(policy)).collect();
    let everywhere = |turn: usize| plain.iter().all(|(_, runs)| runs.iter().any(|r| r.turn == turn));
    let common = plain.first().is_some_and(|(_, runs)| runs.iter().any(|r| everywhere(r.turn)));
    let mean_of = |runs: &[&Record]| {
        let counted: Vec<&Record> = runs.iter().copied().filter(|r| !common || everywhere(r.turn)).collect();
        over(&counted, |r| r.run.jct_mean_s)
    };
    plain.iter().min_by(|a, b| mean_of(&a.1).total_cmp(&mean_of(&b.1))).map(|(policy, _)| *policy)
}

fn against(
    (policy, ours): (&str, &[&Record]),
    (baseline, theirs): (&str, &[&Record]),
    bound: Option<&Bound>,
    label: &str,
) -> Option<Against> {
    let mut pairs: Vec<(&Record, &Record)> =
        ours.iter().filter_map(|a| theirs.iter().find(|b| b.turn == a.turn).map(|b| (*a, *b))).collect();
    pairs.sort_by_key(|(a, _)| a.turn);
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 1.0 };
    let ratios = pairs.iter().map(|(a, b)| ratio(a.run.jct_mean_s, b.run.jct_mean_s)).collect();
    let paired = Paired::of(ratios)?;
    let worst = paired.ratios.iter().position(|r| *r == paired.worst).and_then(|at| pairs.get(at));
    let (ours, theirs): (Vec<&Record>, Vec<&Record>) = pairs.iter().copied().unzip();
    let (mine, other) = (by_job(&ours), by_job(&theirs));
    let jobs = mine.iter().filter_map(|(id, a)| other.get(id).map(|b| (ratio(*a, *b), *id)));
    let worst_job = jobs.max_by(|a, b| a.0.total_cmp(&b.0));
    let rates = |runs: &[&Record]| runs.iter().map(|r| rate(r)).collect::<Option<Vec<f64>>>().map(|rates| mean(&rates));
    Some(Against {
        policy: policy.to_owned(),
        baseline: baseline.to_owned(),
        worst_turn: worst.map_or(0, |(a, _)| a.turn),
        p99_ratio: ratio(over(&ours, |r| r.run.jct_p99_s), over(&theirs, |r| r.run.jct_p99_s)),
        worst_job: worst_job.map(|(_, id)| id.to_owned()).unwrap_or_default(),
        worst_job_ratio: worst_job.map_or(1.0, |(ratio, _)| ratio),
        unmanaged_ratio: rates(&ours).zip(rates(&theirs)).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b),
        way: bound.and_then(|bound| way(&pairs, bound, label)),
        paired,
    })
}

fn by_job<'a>(runs: &[&'a Record]) -> BTreeMap<&'a str, f64> {
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for job in runs.iter().flat_map(|r| &r.run.jobs) {
        times.entry(&job.figures.id).or_default().push(job.figures.jct_s);
    }
    times.into_iter().map(|(id, times)| (id, mean(&times))).collect()
}

/// `None` where the order is not ahead of the baseline: there is no way to go.
fn way(pairs: &[(&Record, &Record)], bound: &Bound, label: &str) -> Option<Way> {
    let best = bound.best()?;
    let part = |indices: &[usize]| {
        let drawn: Vec<&(&Record, &Record)> = indices.iter().filter_map(|at| pairs.get(*at)).collect();
        let of = |f: &dyn Fn(&(&Record, &Record)) -> f64| mean(&drawn.iter().map(|pair| f(pair)).collect::<Vec<_>>());
        let (ours, theirs) = (of(&|(a, _)| a.run.jct_mean_s), of(&|(_, b)| b.run.jct_mean_s));
        let whole = theirs - best.jct_mean_s;
        (whole > 0.0).then(|| (theirs - ours) / whole)
    };
    let all: Vec<usize> = (0..pairs.len()).collect();
    Some(Way {
        part: part(&all)?,
        interval: bootstrap(pairs.len(), label, part),
        order_s: best.jct_mean_s,
        by: best.by.clone(),
        own_routes: bound.own_routes,
    })
}

fn doubts(records: &[Record], rows: &[Row]) -> Vec<String> {
    let kinds = |of: fn(&Record) -> &String| {
        let mut seen: Vec<&String> = records.iter().map(of).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.len()
    };
    let mut found = Vec::new();
    let (builds, machines) = (kinds(|r| &r.build), kinds(|r| &r.machine));
    if builds > 1 {
        found.push(format!("Runs of {builds} builds are mixed: the two sides of a pair may be of different programs."));
    }
    if machines > 1 {
        found.push(format!("Runs of {machines} machines are mixed."));
    }
    let few = rows.iter().filter(|row| row.against.iter().any(|a| a.paired.ratios.len() < ENOUGH)).count();
    if few > 0 {
        found.push(format!(
            "{few} of {} rows have fewer than {ENOUGH} pairs: a few per cent may be chance.",
            rows.len()
        ));
    }
    let late = records.iter().filter(|r| r.load == Load::Quiet && r.run.lateness.p99_us > LATE_US).count();
    if late > 0 {
        found.push(format!(
            "In {late} of the runs that were to be quiet the machine was busy: its timers were more than {} ms late at the 99th percentile.",
            LATE_US / 1000
        ));
    }
    found
}
