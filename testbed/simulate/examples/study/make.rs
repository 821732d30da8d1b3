//! The scenarios as texts: fabrics, models, draws.
//!
//! Where a scenario file cannot say what the study did, this is nearest: members of a job on random hosts, at most one
//! per host in S1 and S2; the compute time's jitter is one per job and iteration. One unit of S4 is 50 ms.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use anyhow::{Result, bail};
use clap::ValueEnum;
use sluice_scenario::random::Stream;

/// The families of scenarios in the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    S1,
    S2,
    S3,
    S4,
}

/// Bytes of the model in millions, seconds of compute, ring or parameter servers, factor on iterations.
struct Model(u64, f64, &'static str, f64);

const S1: [Model; 4] = [
    Model(549, 0.60, "ring", 1.0),
    Model(1200, 0.90, "ring", 1.0),
    Model(528, 0.55, "ps", 1.0),
    Model(98, 0.30, "ps", 3.0),
];
const S2: [Model; 4] = [
    Model(549, 0.50, "ring", 1.0),
    Model(1200, 0.70, "ring", 1.0),
    Model(528, 0.45, "ps", 1.0),
    Model(98, 0.25, "ps", 3.0),
];
const S3: [Model; 6] = [
    Model(549, 0.25, "ring", 1.0),
    Model(1200, 0.45, "ring", 1.0),
    Model(98, 0.12, "ring", 3.0),
    Model(1340, 0.5, "ring", 1.0),
    Model(2200, 0.9, "ring", 1.0),
    Model(528, 0.25, "ps", 1.0),
];

/// What the jobs of a family are drawn from.
struct Draws {
    models: &'static [Model],
    workers: &'static [u64],
    /// Mean gap of arrivals, seconds.
    gap: f64,
    /// Median of the iterations, and the least and most.
    iterations: (f64, f64, f64),
    one_per_host: bool,
}

/// Names and texts of the scenarios.
pub fn texts(
    which: Which,
    gbps: u64,
    seeds: RangeInclusive<u64>,
    jobs: Option<usize>,
) -> Result<Vec<(String, String)>> {
    if which == Which::S4 {
        return match jobs.unwrap_or(2) {
            2 => Ok((0..125).map(two_rings).collect()),
            3 => Ok(seeds.flat_map(|seed| (0..60).map(move |mix| three_rings(seed, mix))).collect()),
            other => bail!("s4 has 2 or 3 rings, not {other}"),
        };
    }
    Ok(seeds.map(|seed| arriving(which, gbps, seed, jobs)).collect())
}

fn arriving(which: Which, gbps: u64, seed: u64, jobs: Option<usize>) -> (String, String) {
    let many = (90.0, 20.0, 800.0);
    let draws = match which {
        Which::S2 => Draws { models: &S2, workers: &[2, 4, 4, 8], gap: 14.0, iterations: many, one_per_host: true },
        Which::S3 => Draws {
            models: &S3,
            workers: &[4, 8, 8, 16, 16, 32],
            gap: 1.5,
            iterations: (60.0, 12.0, 500.0),
            one_per_host: false,
        },
        _ => {
            let gap = if gbps <= 10 { 48.0 } else { 32.0 };
            Draws { models: &S1, workers: &[], gap, iterations: many, one_per_host: true }
        }
    };
    let network = match which {
        Which::S2 => format!("kind = \"star\"\nhosts = 12\ngpus = 4\ngbps = {gbps}\n"),
        Which::S3 => leaf_spine(8, 16, 100, 2),
        _ => format!("kind = \"star\"\nhosts = 6\ngpus = 2\ngbps = {gbps}\n"),
    };
    let name = format!("{}-{gbps}g-{seed}", format!("{which:?}").to_lowercase());
    let mut text = format!(
        "version = 1\nname = \"{name}\"\nseed = {seed}\n[network]\n{network}[placement]\npolicy = \"random\"\n\
         server_gpus = 0\none_per_host = {}\n[defaults]\ncompute_jitter = 0.03\n[control]\ndelay_us = 5000\n\
         [scheduler]\nname = \"sluice\"\n",
        draws.one_per_host
    );
    let mut rng = Stream::new(seed, "study");
    let mut at = 0.0;
    for i in 0..jobs.unwrap_or(if which == Which::S3 { 100 } else { 60 }) {
        at += gap(&mut rng, draws.gap);
        job(&mut text, i, at, &draws, &mut rng);
    }
    (name, text)
}

/// Bursts: mostly short gaps, some long.
fn gap(rng: &mut Stream, mean: f64) -> f64 {
    let mean = if rng.uniform() < 0.7 { mean / 4.0 } else { 2.75 * mean };
    -(1.0 - rng.uniform()).ln() * mean
}

fn job(text: &mut String, i: usize, at: f64, draws: &Draws, rng: &mut Stream) {
    let Some(Model(bytes, compute, arch, factor)) = draws.models.get(rng.index(draws.models.len())) else { return };
    let ring = *arch == "ring";
    let drawn = draws.workers.get(rng.index(draws.workers.len())).copied();
    let (workers, servers) = match drawn {
        None if ring => (3, 0),
        None => (2, 2),
        Some(workers) if ring => (workers, 0),
        Some(workers) if draws.one_per_host => (workers, workers.min(4)),
        Some(workers) => (workers.min(8), workers.min(8) / 2),
    };
    let (median, least, most) = draws.iterations;
    let iterations = ((median.ln() + 0.9 * rng.normal()).exp().clamp(least, most) * factor).round();
    _ = write!(
        text,
        "[[jobs]]\nid = \"j{i}\"\nbytes = {bytes}000000\ncompute_s = {compute}\narch = \"{arch}\"\nworkers = {workers}\n\
         servers = {servers}\niterations = {iterations}\narrival_s = {at:.6}\n"
    );
}

/// Leaves and four spines; the way up has a part of what a leaf's hosts have.
fn leaf_spine(leaves: u64, hosts: u64, gbps: u64, oversubscribed: u64) -> String {
    let up = hosts * gbps / 4 / oversubscribed;
    let mut text = String::from("kind = \"explicit\"\nhosts = [");
    (0..leaves * hosts).for_each(|h| text.push_str(&format!("{{ id = \"h{h}\", gpus = 4 }}, ")));
    text.push_str("]\nswitches = [");
    (0..leaves).for_each(|l| text.push_str(&format!("{{ id = \"l{l}\" }}, ")));
    (0..4).for_each(|s| text.push_str(&format!("{{ id = \"s{s}\" }}, ")));
    text.push_str("]\nlinks = [");
    for l in 0..leaves {
        (0..hosts).for_each(|h| {
            let host = l * hosts + h;
            text.push_str(&format!("{{ a = \"h{host}\", b = \"l{l}\", gbps = {gbps} }}, "));
        });
        (0..4).for_each(|s| text.push_str(&format!("{{ a = \"l{l}\", b = \"s{s}\", gbps = {up} }}, ")));
    }
    text.push_str("]\n");
    text
}

/// Seconds of the first ring's period (20 units), and Gbit/s of the link.
const PERIOD: f64 = 1.0;
const LINK: f64 = 10.0;

fn rings(name: String, jobs: &[(f64, f64)]) -> (String, String) {
    let mut text = format!(
        "version = 1\nname = \"{name}\"\n[time]\nend_s = 60\n[network]\nkind = \"star\"\nhosts = 2\ngpus = {}\ngbps = {LINK}\n\
         [placement]\npolicy = \"explicit\"\n[control]\ndelay_us = 5000\n[scheduler]\nname = \"sluice\"\n",
        jobs.len()
    );
    for (i, (factor, share)) in jobs.iter().enumerate() {
        let (period, round) = (PERIOD * factor, PERIOD * factor * share);
        _ = write!(
            text,
            "[[jobs]]\nid = \"j{i}\"\nbytes = {:.0}\ncompute_s = {:.6}\narch = \"ring\"\niterations = 100000\n\
             placement = {{ workers = [\"h0\", \"h1\"] }}\n",
            round * LINK * 1e9 / 8.0,
            period - round
        );
    }
    (name, text)
}

const SHARES: [f64; 5] = [0.2, 0.35, 0.5, 0.65, 0.8];

fn two_rings(mix: usize) -> (String, String) {
    let factors = [1.0, 1.25, 1.5, 2.0, 3.0];
    let [a, b, c] = [mix % 5, mix / 5 % 5, mix / 25 % 5];
    rings(format!("s4-2-{mix}"), &[(1.0, SHARES[a]), (factors[b], SHARES[c])])
}

fn three_rings(seed: u64, mix: u64) -> (String, String) {
    let factors = [1.0, 1.5, 2.0];
    let mut rng = Stream::new(seed.wrapping_add(mix << 32), "study-s4");
    let mut share = || SHARES[rng.index(4)];
    let shares = [share(), share(), share()];
    let mut factor = || factors[rng.index(3)];
    let jobs = [(1.0, shares[0]), (factor(), shares[1]), (factor(), shares[2])];
    rings(format!("s4-3-{seed}-{mix}"), &jobs)
}
