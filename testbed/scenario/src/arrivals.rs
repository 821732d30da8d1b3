//! Jobs drawn from a trace of arrivals. The order of draws is part of the format (`simulation.md` section 2.6), so
//! that two implementations make the same jobs.

use crate::quantities::{GIGA, Quantity};
use sluice_formats::document::{Item, Table, Value};
use sluice_formats::problem::{Code, E_ARCH, E_KEY, E_LIMIT, E_MISSING, E_RANGE, E_TRACE};
use sluice_formats::quantity::Rational;
use std::path::Path;

use sluice_schedule::{Nanos, Rate};

use super::jobs::{ARCHS, Arch, Job, Scene, compute_time, misfit, model_of};
use super::model::Model;
use super::random::Stream;
use super::synthetic::Synthetic;
use super::trace::{Arrival, Csv};

/// Most jobs of a scenario.
pub(crate) const MAX_JOBS: usize = 1_000_000;

/// A model that a drawn job may get.
struct Entry {
    name: String,
    model: Model,
    arch: Arch,
    workers: u32,
    servers: u32,
    share: f64,
}

#[derive(Clone, Copy)]
enum Iterations {
    Fixed(u64),
    Range(u64, u64),
    FromDuration,
}

/// What the keys of `[arrivals]` say, and the jobs made so far.
struct Maker<'a, 'b> {
    scene: &'a Scene<'b>,
    stream: Stream,
    mix: Vec<Entry>,
    iterations: Iterations,
    rate_scale: f64,
    time_scale: f64,
    even: bool,
    gpus_from_trace: bool,
    gpu_range: (u32, u32),
    duration_scale: f64,
    max_jobs: usize,
    jobs: Vec<Job>,
    dropped: u64,
    traced: u64,
    broken: Option<(Code, String, &'static str)>,
}

/// The jobs, and how many rows were too large for `max_gpus`.
pub(crate) struct Drawn {
    pub(crate) jobs: Vec<Job>,
    pub(crate) dropped: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    PerMinute,
    Jobs,
    Synthetic,
}

/// Reads `[arrivals]` and draws its jobs.
pub(crate) fn read(t: Table<'_>, scene: &Scene<'_>, seed: u64, base: &Path) -> Option<Drawn> {
    let before = t.item.collector.count();
    t.require("kind");
    let kinds = [("per-minute", Kind::PerMinute), ("jobs", Kind::Jobs), ("synthetic", Kind::Synthetic)];
    let kind = t.choice("kind", &kinds);
    let file = t.get("file");
    let start_minute = t.int("start_minute", 0..=1_000_000_000);
    let start = t.get("start_s").and_then(|i| i.seconds());
    if t.has("start_minute") && t.has("start_s") {
        t.fail(E_KEY, "start_minute and start_s exclude each other", "one of the two");
    }
    let window = (
        start_minute.map(|m| Nanos(m.saturating_mul(60 * GIGA))).or(start).unwrap_or_default(),
        t.get("length_s").and_then(|i| i.seconds()),
    );
    let million = Rational::from(1_000_000);
    let tiny = Rational::new(1, 1_000_000_000).unwrap_or(Rational::ONE);
    let rate_scale = t.float("rate_scale", &tiny, &Rational::from(10_000)).unwrap_or(1.0);
    let time_scale = t.float("time_scale", &tiny, &million).unwrap_or(1.0);
    let even = t.choice("within_minute", &[("uniform", false), ("even", true)]).unwrap_or(false);
    let initial = t.int("initial_jobs", 0..=MAX_JOBS as u64).unwrap_or(0);
    let spread = t.get("initial_spread_s").and_then(|i| i.seconds()).unwrap_or(Nanos(60 * GIGA));
    let max_jobs = t.int("max_jobs", 1..=MAX_JOBS as u64).map_or(MAX_JOBS, |n| n as usize);
    let mix = t.require("mix").map(|i| read_mix(&i, scene)).unwrap_or_default();
    let iterations = t.require("iterations").and_then(|i| read_iterations(&i));
    let duration_scale = t.float("duration_scale", &tiny, &million).unwrap_or(1.0);
    let gpus_from_trace = t.flag("gpus_from_trace").unwrap_or(false);
    let gpu_range = (t.int32("min_gpus", 1..=65_536).unwrap_or(1), t.int32("max_gpus", 1..=65_536).unwrap_or(64));
    t.finish();
    let (kind, iterations) = (kind?, iterations?);
    if kind == Kind::PerMinute && (gpus_from_trace || matches!(iterations, Iterations::FromDuration)) {
        t.fail(E_KEY, "a per-minute trace has neither GPUs nor durations", "kind = \"jobs\" or \"synthetic\"");
    }
    if kind == Kind::Synthetic && file.is_some() {
        t.fail(E_KEY, "a synthetic trace has no file", "no file");
    }
    if kind != Kind::Synthetic && file.is_none() {
        t.fail(E_MISSING, "file is missing", "path of the trace, relative to the scenario");
    }
    if kind == Kind::Synthetic && window.1.is_none() {
        t.fail(E_MISSING, "length_s is missing", "the length of a synthetic trace");
    }
    if mix.is_empty() || t.item.collector.count() > before {
        return None;
    }
    let mut maker = Maker {
        scene,
        stream: Stream::new(seed, "arrivals"),
        mix,
        iterations,
        rate_scale,
        time_scale,
        even,
        gpus_from_trace,
        gpu_range,
        duration_scale,
        max_jobs,
        jobs: Vec::new(),
        dropped: 0,
        traced: 0,
        broken: None,
    };
    for n in 0..initial {
        let at = maker.stream.uniform() * spread.as_secs_f64();
        maker.create(format!("i{n}"), at, None, None);
    }
    match (kind, &file) {
        (Kind::Synthetic, _) => {
            let minutes = window.1.unwrap_or_default().0.div_ceil(60 * GIGA);
            let mut source = Synthetic::new(seed, maker.rate_scale);
            // The generator scales its mean itself and keeps the burstiness.
            maker.rate_scale = 1.0;
            for minute in 0..minutes {
                if maker.full() {
                    break;
                }
                source.minute(minute).into_iter().for_each(|a| maker.row(&a));
            }
        }
        (_, Some(file)) => rows(kind, file, base, window, &mut maker)?,
        (_, None) => {}
    }
    if let Some((code, what, allowed)) = maker.broken.take() {
        t.fail(code, what, allowed);
    }
    if maker.jobs.is_empty() {
        t.fail(E_TRACE, "the window holds no job", "another start, length or rate_scale");
    }
    Some(Drawn { jobs: maker.jobs, dropped: maker.dropped })
}

fn rows(
    kind: Kind,
    file: &Item<'_>,
    base: &Path,
    window: (Nanos, Option<Nanos>),
    maker: &mut Maker<'_, '_>,
) -> Option<()> {
    let header: &[&str] =
        if kind == Kind::PerMinute { &["minute", "jobs"] } else { &["arrival_s", "gpus", "duration_s"] };
    let mut csv = Csv::open(&base.join(file.text()?), header, file)?;
    let (start, end) = (window.0, window.1.map(|l| window.0.plus(l)));
    let mut last = Nanos::ZERO;
    while let Some(row) = csv.next_row(file.collector)? {
        let bad = |what: String, allowed: &str| file.collector.push(csv.problem(what, allowed));
        let (Some(first), Some(second)) = (row.fields.first(), row.fields.get(1)) else { continue };
        let per_minute = kind == Kind::PerMinute;
        let unit = if per_minute { 60 * GIGA } else { GIGA };
        let whole = |text: &str| text.parse::<u64>().ok().filter(|&n| n <= MAX_JOBS as u64 * 1000);
        let at = if per_minute {
            whole(first).map(|n| Nanos(n.saturating_mul(unit)))
        } else {
            Rational::parse_setting(first).ok().and_then(|r| r.to_units(unit)).map(Nanos)
        };
        let (Some(at), Some(count)) = (at, whole(second)) else {
            bad(format!("{first:?},{second:?}"), "a time from 0 on and a whole number");
            return None;
        };
        if at < last {
            bad(format!("{first} comes after a later row"), "rows in order of time");
            return None;
        }
        last = at;
        if at < start || maker.full() || maker.broken.is_some() {
            continue;
        }
        if end.is_some_and(|e| at >= e) {
            break;
        }
        let at_s = at.minus(start).as_secs_f64();
        if per_minute {
            for k in 0..count.min(MAX_JOBS as u64) {
                maker.row(&Arrival { at_s, minute: Some((k, count)), gpus: None, duration_s: None });
            }
            continue;
        }
        let duration_s = match row.fields.get(2).map(String::as_str) {
            None | Some("") => None,
            Some(text) => match Rational::parse_setting(text) {
                Ok(d) => Some(d.to_f64()),
                Err(_) => {
                    bad(format!("duration {text:?}"), "seconds from 0 on, or nothing");
                    return None;
                }
            },
        };
        let gpus = u32::try_from(count).ok();
        maker.row(&Arrival { at_s, minute: None, gpus, duration_s });
    }
    Some(())
}

impl Maker<'_, '_> {
    fn full(&self) -> bool {
        self.jobs.len() >= self.max_jobs
    }

    /// One row: the draws for its copies, then for each copy its place, its model, its iterations.
    fn row(&mut self, arrival: &Arrival) {
        if let Some(gpus) = arrival.gpus {
            if gpus < self.gpu_range.0 {
                return;
            }
            if gpus > self.gpu_range.1 {
                self.dropped += 1;
                return;
            }
        }
        let fraction = self.rate_scale.fract();
        let mut copies = self.rate_scale.trunc() as u64;
        if fraction > 0.0 && self.stream.uniform() < fraction {
            copies += 1;
        }
        for _ in 0..copies {
            if self.full() || self.broken.is_some() {
                return;
            }
            let place = match arrival.minute {
                Some((k, n)) if self.even => 60.0 * (k as f64 + 0.5) / n.max(1) as f64,
                Some(_) => 60.0 * self.stream.uniform(),
                None => 0.0,
            };
            let at = (arrival.at_s + place) * self.time_scale;
            let id = format!("t{}", self.traced);
            self.traced += 1;
            self.create(id, at, arrival.gpus, arrival.duration_s);
        }
    }

    fn create(&mut self, id: String, at_s: f64, gpus: Option<u32>, duration_s: Option<f64>) {
        if self.full() {
            if self.max_jobs == MAX_JOBS {
                self.broken = Some((E_LIMIT, "more than 1000000 jobs".into(), "at most 1000000 jobs"));
            }
            return;
        }
        let total: f64 = self.mix.iter().map(|e| e.share).sum();
        let draw = self.stream.uniform() * total;
        let mut sum = 0.0;
        let entry = self.mix.iter().find(|e| {
            sum += e.share;
            draw < sum
        });
        let Some(entry) = entry.or(self.mix.last()) else { return };
        let (mut workers, mut servers, mut arch) = (entry.workers, entry.servers, entry.arch);
        if self.gpus_from_trace
            && let Some(g) = gpus
        {
            (workers, servers, arch) = (g.min(1024), 0, Arch::Ring);
        }
        let Some(compute) = compute_time(&entry.model.compute, workers, &self.scene.defaults.compute_scale) else {
            self.broken = Some((E_RANGE, "a compute time is out of range".into(), ""));
            return;
        };
        let iterations = match self.iterations {
            Iterations::Fixed(n) => n,
            Iterations::Range(lo, hi) => lo + self.stream.below(hi - lo + 1),
            Iterations::FromDuration => {
                let nic = (0..self.scene.network.hosts.len()).map(|i| self.scene.network.nic(super::NodeIx(i))).min();
                let alone = isolated_s(arch, entry.model.bytes, workers, servers, nic.unwrap_or(Rate(1)))
                    + compute.as_secs_f64();
                let wanted = duration_s.unwrap_or(0.0) * self.duration_scale / alone.max(1e-9);
                (wanted.round_ties_even() as u64).clamp(1, 10_000_000)
            }
        };
        let d = self.scene.defaults;
        self.jobs.push(Job {
            id,
            model: Some(entry.name.clone()),
            arch,
            bytes: entry.model.bytes,
            compute,
            computes: Vec::new(),
            workers,
            servers,
            iterations: u32::try_from(iterations).unwrap_or(u32::MAX),
            arrival: Nanos((at_s * 1e9).round_ties_even() as u64),
            weight: 1.0,
            fanout: 2,
            overlap: d.overlap,
            granule: d.granule,
            jitter: d.jitter,
            pinned: None,
            dependency: d.dependency,
            flows: Vec::new(),
            flops: entry.model.flops,
            batch: entry.model.batch.clone(),
        });
    }
}

/// Length of a round on an empty network of equal NICs with one member per host, in seconds.
pub fn isolated_s(arch: Arch, bytes: u64, workers: u32, servers: u32, nic: Rate) -> f64 {
    let (m, w, s) = (bytes as f64, f64::from(workers), f64::from(servers));
    let through_one_nic = match arch {
        Arch::Ring if workers > 1 => 2.0 * (w - 1.0) * (m / w).ceil(),
        Arch::Ps if servers > 0 => (m / s).ceil() * w.max(s),
        Arch::Tree if workers > 1 => m * (w - 1.0).min(2.0),
        _ => 0.0,
    };
    through_one_nic * 8.0 / nic.0.max(1) as f64
}

fn read_mix(item: &Item<'_>, scene: &Scene<'_>) -> Vec<Entry> {
    let mut mix = Vec::new();
    let list = item.list().unwrap_or_default();
    if list.is_empty() {
        item.fail(E_MISSING, "an empty mix", "at least one entry");
    }
    for item in list {
        let Some(t) = item.table() else { continue };
        let model = t.require("model").and_then(|i| model_of(&i, scene.models));
        t.require("arch");
        let arch = t.choice("arch", &ARCHS);
        let workers = t.require("workers").and_then(|i| i.int(&(1..=1024)));
        let servers = t.int32("servers", 0..=4096).unwrap_or(0);
        let share = t.float("share", &Rational::ZERO, &Rational::from(1_000_000)).unwrap_or(1.0);
        let (Some((name, model)), Some(arch), Some(workers)) = (model, arch, workers) else { continue };
        let workers = u32::try_from(workers).unwrap_or(1);
        let fault = match arch {
            Arch::Flows => Some((E_ARCH, "flows jobs cannot be drawn".into(), "ring, ps, tree or none")),
            _ => misfit(arch, workers, servers),
        };
        if let Some((code, what, allowed)) = fault {
            t.fail(code, what, allowed);
        }
        t.finish();
        mix.push(Entry { name, model: model.clone(), arch, workers, servers, share });
    }
    if !mix.is_empty() && mix.iter().all(|e| e.share == 0.0) {
        item.fail(E_RANGE, "all shares are 0", "at least one share above 0");
    }
    mix
}

fn read_iterations(item: &Item<'_>) -> Option<Iterations> {
    let most = 1..=10_000_000;
    match &item.node.value {
        Value::Text(t) if t == "from-duration" => Some(Iterations::FromDuration),
        Value::List(_) => {
            let bounds: Vec<u64> = item.list()?.iter().filter_map(|i| i.int(&most)).collect();
            match bounds.as_slice() {
                [lo, hi] if lo <= hi => Some(Iterations::Range(*lo, *hi)),
                _ => {
                    item.fail(E_RANGE, "no range", "[lo, hi] with lo ≤ hi");
                    None
                }
            }
        }
        Value::Text(_) => {
            item.fail(E_RANGE, item.node.value.shown(), "a whole number, [lo, hi], or \"from-duration\"");
            None
        }
        _ => item.int(&most).map(Iterations::Fixed),
    }
}
