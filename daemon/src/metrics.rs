//! `/metrics`: the snapshot in Prometheus' classic text form.
//!
//! One table ([`table::FAMILIES`]) names every metric with its type, labels and sentence and says how to read it from a
//! [`Snapshot`]; the registry, the tests and the documentation come from it. Label values are [`Label`]s or words of
//! ours, never addresses or ranks, and every list is cut: at most `metrics.max_jobs` jobs (the rest is summed
//! as `_other`), 16 links, 31 switches, and flows only on request (`metrics.flows`), by a small number, at most
//! `metrics.max_flows` of them. A series that can appear exists from the start with 0, but that of a
//! certificate which nobody gave.

/// One metric; `fill` reads it from a [`Source`] into [`Samples`].
macro_rules! family {
    ($kind:ident, $name:literal, [$($label:literal),*], $help:literal, |$s:ident, $o:ident| $fill:expr) => {
        Family {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
            fill: {
                fn fill($s: &Source<'_>, $o: &mut Samples) {
                    $fill
                }
                fill
            },
        }
    };
}

pub mod process;
pub mod table;

use std::collections::BTreeMap;

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram as ProtoHistogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};
use sluice_wire::snapshot::{Flow, Histogram, Job, Label, Snapshot};

/// Links with series of their own.
pub const MAX_LINKS: usize = 16;
/// Switches with series of their own.
pub const MAX_SWITCHES: usize = 31;
/// A job's series stay this long after its end.
const KEPT_AFTER_END_NS: u64 = 300_000_000_000;
/// The value of a label that stands for all that have none of their own.
const OTHER: &str = "_other";
/// Content type of the classic text form.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    Counter,
    Histogram,
}

#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    /// Label names, in the order in which [`Family::fill`] gives values.
    pub labels: &'static [&'static str],
    pub help: &'static str,
    pub fill: fn(&Source<'_>, &mut Samples),
}

/// What metrics are read from: the snapshot, with its lists already cut.
#[derive(Debug)]
pub struct Source<'a> {
    pub snapshot: &'a Snapshot,
    /// Jobs by label, cut and summed.
    pub jobs: BTreeMap<Label, JobSum>,
    /// Flows with a series of their own, by the label of their job and their number; what `_other` stands for comes last.
    pub flows: Vec<Series<'a>>,
}

/// A flow, and the label values under which it is shown.
#[derive(Debug)]
pub struct Series<'a> {
    pub job: &'a Label,
    /// `None`: it is summed with others of the job.
    pub number: Option<u32>,
    pub flow: &'a Flow,
}

/// The values of one `job_id`.
#[derive(Clone, Debug, Default)]
pub struct JobSum {
    /// Pattern and source of the (last) job.
    pub about: (String, Label),
    pub flows: u64,
    /// Payload bytes acknowledged.
    pub acked_bytes: u64,
    /// Orders, bit/s.
    pub ordered_bps: u64,
    /// Least progress of the round.
    pub progress_ratio: Option<f64>,
    pub rounds: u64,
    pub rounds_ns: u64,
    /// Flow-time below demand: predecessor, headroom, sender.
    pub stalls_ns: [u64; 3],
}

/// The samples of one family while it is filled.
#[derive(Debug, Default)]
pub struct Samples {
    values: BTreeMap<Vec<String>, f64>,
    histograms: Vec<(Vec<String>, Histogram)>,
}

impl Samples {
    pub fn one(&mut self, value: f64) {
        self.put(&[], value);
    }
    /// A value without labels, if it is known.
    pub fn some(&mut self, value: Option<f64>) {
        value.into_iter().for_each(|value| self.one(value));
    }
    /// A value with its label values; values with the same labels are added.
    pub fn put(&mut self, labels: &[&str], value: f64) {
        let labels = labels.iter().map(|text| (*text).to_owned()).collect();
        *self.values.entry(labels).or_default() += if value.is_finite() { value } else { 0.0 };
    }
    /// 1 for the state that holds, 0 for the others.
    pub fn states(&mut self, states: impl Iterator<Item = &'static str>, now: &str) {
        states.for_each(|state| self.put(&[state], f64::from(u8::from(state == now))));
    }
    pub fn histogram(&mut self, labels: &[&str], histogram: &Histogram) {
        self.histograms.push((labels.iter().map(|text| (*text).to_owned()).collect(), histogram.clone()));
    }
}

/// All families, those of the snapshot and the process's own.
pub fn all() -> impl Iterator<Item = &'static Family> {
    table::FAMILIES.iter().chain(process::FAMILIES)
}

/// The page for this snapshot.
///
/// # Errors
/// None on any snapshot; the encoder's type says otherwise.
pub fn render(snapshot: &Snapshot) -> prometheus::Result<String> {
    let other = Label::new(OTHER);
    let jobs = sum_jobs(snapshot);
    let flows = flow_series(snapshot, &jobs, &other);
    let source = Source { snapshot, jobs, flows };
    let families: Vec<MetricFamily> =
        all().map(|family| collect(family, &source)).filter(|family| !family.get_metric().is_empty()).collect();
    let mut page = Vec::with_capacity(64 * 1024);
    TextEncoder::new().encode(&families, &mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// At most `metrics_max_jobs` ids; live jobs first, the rest is `_other`. Two ids with one label are summed.
fn sum_jobs(snapshot: &Snapshot) -> BTreeMap<Label, JobSum> {
    let mut sums: BTreeMap<Label, JobSum> = BTreeMap::new();
    if !snapshot.daemon.metrics_job_ids {
        return sums;
    }
    let gone = |job: &&Job| {
        job.ended_unix_ns.is_some_and(|ended| ended.saturating_add(KEPT_AFTER_END_NS) < snapshot.taken_unix_ns)
    };
    let mut jobs: Vec<&Job> = snapshot.jobs.iter().filter(|job| !gone(job)).collect();
    jobs.sort_by_key(|job| job.ended_unix_ns.is_some());
    let other = Label::new(OTHER);
    for job in jobs {
        let room = sums.len() < snapshot.daemon.metrics_max_jobs || sums.contains_key(&job.id);
        let sum = sums.entry(if room { job.id.clone() } else { other.clone() }).or_default();
        sum.about = if room {
            // A producer is words, and their escaped blanks would be hard to read.
            (job.pattern.as_str().into(), Label::new(&job.source.replace(' ', "_")))
        } else {
            ("unknown".into(), Label::default())
        };
        sum.flows = sum.flows.saturating_add(job.flows);
        sum.acked_bytes = sum.acked_bytes.saturating_add(job.acked_bytes);
        sum.ordered_bps = sum.ordered_bps.saturating_add(job.ordered_bps.unwrap_or(0));
        sum.rounds = sum.rounds.saturating_add(job.rounds_finished);
        sum.rounds_ns = sum.rounds_ns.saturating_add(job.rounds_ns);
        let progress = job.progress_ratio.filter(|ratio| ratio.is_finite());
        sum.progress_ratio = match (sum.progress_ratio, progress) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let stalls = job.stalls;
        let causes = [stalls.predecessor_ns, stalls.headroom_ns, stalls.sender_ns];
        for (total, ns) in sum.stalls_ns.iter_mut().zip(causes) {
            *total = total.saturating_add(ns);
        }
    }
    sums
}

/// The flows, lowest numbers first so that every job has some; those past `metrics_max_flows` are `_other`. Jobs without a
/// label of their own are one job here, as everywhere.
fn flow_series<'a>(snapshot: &'a Snapshot, jobs: &BTreeMap<Label, JobSum>, other: &'a Label) -> Vec<Series<'a>> {
    if !snapshot.daemon.metrics_flows || !snapshot.daemon.metrics_job_ids {
        return Vec::new();
    }
    let series = |flow: &'a Flow| {
        let known = jobs.contains_key(&flow.job);
        Series { job: if known { &flow.job } else { other }, number: flow.number.filter(|_| known), flow }
    };
    let mut all: Vec<Series<'_>> = snapshot.flows.iter().map(series).collect();
    all.sort_by_key(|series| (series.number.is_none(), series.number, series.job));
    all.iter_mut().skip(snapshot.daemon.metrics_max_flows).for_each(|series| series.number = None);
    all
}

fn collect(family: &Family, source: &Source<'_>) -> MetricFamily {
    let mut samples = Samples::default();
    (family.fill)(source, &mut samples);
    let mut out = MetricFamily::default();
    out.set_name(family.name.to_owned());
    out.set_help(family.help.to_owned());
    out.set_field_type(match family.kind {
        Kind::Gauge => MetricType::GAUGE,
        Kind::Counter => MetricType::COUNTER,
        Kind::Histogram => MetricType::HISTOGRAM,
    });
    let values = samples.values.into_iter().map(|(labels, value)| {
        let mut metric = Metric::from_label(pairs(family.labels, labels));
        match family.kind {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            _ => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
        }
        metric
    });
    let histograms = samples.histograms.into_iter().map(|(labels, histogram)| {
        let mut metric = Metric::from_label(pairs(family.labels, labels));
        metric.set_histogram(proto(&histogram));
        metric
    });
    out.set_metric(values.chain(histograms).collect());
    out
}

fn pairs(names: &[&str], values: Vec<String>) -> Vec<LabelPair> {
    let pair = |(name, value): (&&str, String)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value(value);
        pair
    };
    names.iter().zip(values).map(pair).collect()
}

fn proto(histogram: &Histogram) -> ProtoHistogram {
    let mut seen = 0_u64;
    let buckets = histogram.bounds.iter().zip(&histogram.counts).map(|(&bound, &count)| {
        seen = seen.saturating_add(count);
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(seen);
        bucket
    });
    let mut out = ProtoHistogram::default();
    out.set_bucket(buckets.collect());
    out.set_sample_count(histogram.count());
    out.set_sample_sum(if histogram.sum.is_finite() { histogram.sum } else { 0.0 });
    out
}

#[cfg(test)]
mod tests;
