//! `sluice why`: where the time of a job's last rounds went, from the flight records of its hosts.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde::Serialize;
use sluice_attribution::share::{Cause, Report};
use sluice_attribution::{Hosts, Record, record, usual};
use sluice_formats::problem::hint;
use sluice_schedule::JobId;
use sluice_wire::snapshot::SCHEMA;

use crate::client::Client;
use crate::failure::Failure;
use crate::global::Global;
use crate::{output, view};

/// Largest flight record that is read.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Clone, Debug, ClapArgs)]
pub struct WhyArgs {
    /// The job, by its name
    pub job: String,
    /// How many of the last rounds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    pub rounds: u32,
    /// Flight records instead of a daemon's: of a daemon that is dead, or of several hosts; the first one's host is asked
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub from: Vec<PathBuf>,
    /// Also read the records of these hosts of the job, over HTTP (they need http.details = "all"): what this host waited
    /// for them, they know why
    #[arg(long, value_delimiter = ',', value_name = "HOST[:PORT],…")]
    pub with: Vec<String>,
}

/// The answer, for people and as JSON.
#[derive(Debug, Serialize)]
pub struct Why {
    schema: u32,
    pub job: String,
    pub host: String,
    /// Hosts whose records were read.
    pub records: Vec<String>,
    /// Rounds that were looked at, of so many that are recorded.
    pub rounds: usize,
    pub recorded: usize,
    /// Of a round and the compute before it, on average.
    pub took_ns: u64,
    /// Part of that of which the kernel's own counts are known.
    pub confidence: f64,
    pub shares: Vec<Share>,
    /// The quickest quarter of what is recorded; absent where that is too little.
    pub usual: Option<Usual>,
    /// What is more than usual, the most first; empty where rounds are as quick as usual.
    pub more: Vec<Share>,
}

#[derive(Debug, Serialize)]
pub struct Usual {
    pub rounds: usize,
    pub took_ns: u64,
    pub shares: Vec<Share>,
}

/// Time of one cause, and its part of all.
#[derive(Debug, Serialize)]
pub struct Share {
    #[serde(flatten)]
    pub cause: Cause,
    pub ns: u64,
    pub ratio: f64,
}

pub fn run(global: &Global, args: &WhyArgs) -> Result<(), Failure> {
    let (host, hosts) = records(global, args)?;
    let why = ask(&host, &hosts, &args.job, args.rounds as usize)?;
    output::one(global, &why, || view::why(&why))
}

/// The host that is asked, and what all of them saw.
fn records(global: &Global, args: &WhyArgs) -> Result<(String, Hosts), Failure> {
    let mut read = Vec::new();
    for path in &args.from {
        read.push(parse(&load(path)?, &path.display().to_string())?);
    }
    if args.from.is_empty() {
        read.push(fetch(global, "the daemon")?);
    }
    for host in &args.with {
        let there = Global { host: Some(host.clone()), ..global.clone() };
        read.push(fetch(&there, host)?);
    }
    let host = read.first().map(|record: &Record| record.host.clone()).unwrap_or_default();
    let mut hosts = Hosts::default();
    read.into_iter().for_each(|record| hosts.take(record));
    Ok((host, hosts))
}

fn fetch(global: &Global, from: &str) -> Result<Record, Failure> {
    parse(&Client::new(global)?.get("/api/v1/flight")?, from)
}

fn parse(bytes: &[u8], from: &str) -> Result<Record, Failure> {
    if bytes.is_empty() {
        let help = "it begins with the first job on the host";
        return Err(Failure::no(format!("{from}: nothing is recorded yet")).with_help(help));
    }
    record::read(bytes).map_err(|error| Failure::input(format!("{from}: {error}")))
}

fn load(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| Failure::input(format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(failed)?.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn ask(host: &str, hosts: &Hosts, name: &str, rounds: usize) -> Result<Why, Failure> {
    let jobs = hosts.jobs(host);
    let named: Vec<JobId> =
        jobs.iter().filter(|(id, of)| **of == name || id.to_string() == name).map(|(id, _)| *id).collect();
    let [job] = named[..] else {
        let known: Vec<&str> = jobs.values().copied().collect();
        let message = if named.is_empty() {
            let hint = hint(name, known.iter().copied()).map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("no job `{name}` in the flight record of {host}{hint}")
        } else {
            let ids: Vec<String> = named.iter().map(JobId::to_string).collect();
            format!("{} users have a job `{name}` on {host}; name one by its id: {}", ids.len(), ids.join(", "))
        };
        let help =
            if known.is_empty() { "no job is recorded".to_owned() } else { format!("recorded: {}", known.join(", ")) };
        return Err(Failure::no(message).with_help(&help));
    };
    let all = hosts.iterations(host, job);
    let last = &all[all.len() - rounds.min(all.len())..];
    if last.is_empty() {
        let help = "a round is known once the one before it and it itself have ended";
        return Err(Failure::no(format!("no whole round of `{name}` is recorded on {host}")).with_help(help));
    }
    let report = hosts.report(host, job, last);
    let quickest = usual(&all);
    let usual = hosts.report(host, job, &quickest);
    let more = if report.is_slower_than(&usual) { report.excess(&usual) } else { Vec::new() };
    let extra: f64 = more.iter().map(|(_, time)| time).sum();
    Ok(Why {
        schema: SCHEMA,
        job: name.to_owned(),
        host: host.to_owned(),
        records: hosts.names().map(str::to_owned).collect(),
        rounds: report.rounds,
        recorded: all.len(),
        took_ns: report.took().0,
        confidence: report.confidence,
        shares: shares(&report),
        usual: (usual.rounds > 0).then(|| Usual {
            rounds: usual.rounds,
            took_ns: usual.took().0,
            shares: shares(&usual),
        }),
        more: more.into_iter().map(|(cause, time)| share(cause, time, extra)).collect(),
    })
}

fn shares(report: &Report) -> Vec<Share> {
    let total = report.shares.total();
    report.shares.longest_first().into_iter().map(|(cause, time)| share(cause.clone(), time, total)).collect()
}

fn share(cause: Cause, time: f64, whole: f64) -> Share {
    Share { cause, ns: time as u64, ratio: if whole > 0.0 { time / whole } else { 0.0 } }
}
