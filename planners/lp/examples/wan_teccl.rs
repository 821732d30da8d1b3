//! The comparison with TE-CCL of the allocation page's section 13, on Abilene with four participants: mean times in s over the
//! seeds, by methods on fixed routes and by TE-CCL's schedules executed alike.
//!
//! `cargo run --release -p sluice-planners-lp --example wan_teccl -- [KEY=VALUE…]`, with `seeds=5`, `k=2,4,8`, `sizes=1,2,4,8,16`,
//! `chunk=flow` (a chunk is the mean flow at every size) or `chunk=fixed` (the mean flow at size 1, so that larger flows are
//! several chunks), `limit=5` (seconds of each of TE-CCL's searches) and `who=all`, `ours` or `theirs`. Rows of tabs: method, K, size, chunks of
//! a flow, mean, its standard deviation over seeds, seconds to plan one instance, and how good TE-CCL's schedules are in
//! epochs: how many of the seeds each.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluice_planners::Run;
use sluice_planners_lp::wan::against_teccl::{Epochs, Form, Options, Standing, decide};
use sluice_planners_lp::wan::{Limits, multiring, rate_alloc, weight_gp};
use sluice_planners_wan::Instance;
use sluice_planners_wan::generate::Workload;
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::method;
use sluice_planners_wan::plan::{Execution, Plan};
use sluice_planners_wan::portfolio::{self, Candidate};

type Failure = Box<dyn std::error::Error>;

/// What a method came to on one instance.
struct Played {
    method: String,
    mean: f64,
    seconds: f64,
    standing: Option<Standing>,
}

struct Asked {
    settings: BTreeMap<String, String>,
}

impl Asked {
    fn new() -> Result<Asked, Failure> {
        let pair = |text: String| -> Result<(String, String), Failure> {
            let (key, value) = text.split_once('=').ok_or("KEY=VALUE is needed")?;
            Ok((key.to_owned(), value.to_owned()))
        };
        Ok(Asked { settings: std::env::args().skip(1).map(pair).collect::<Result<_, _>>()? })
    }
    fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.settings.get(key).map_or(default, String::as_str)
    }
    fn list(&self, key: &str, default: &str) -> Result<Vec<u64>, Failure> {
        Ok(self.text(key, default).split(',').map(str::parse).collect::<Result<_, _>>()?)
    }
}

/// The methods on fixed routes.
fn ours(instance: &Instance, run: &Run<'_>) -> Result<Vec<Played>, Failure> {
    let (mut all, mut plans, mut total) = (Vec::new(), Vec::new(), 0.0);
    for method in ["multiring", "rate_alloc", "weight_gp"] {
        let begin = Instant::now();
        let execution = Execution::Static;
        let plan = match method {
            "multiring" => {
                let limits = Limits { time: Some(Duration::from_millis(1500)), ..Limits::default() };
                let options = multiring::Options { limits, ..multiring::Options::default() };
                Plan::Schedule(multiring::multiring(instance, options, run)?.plan.schedule)
            }
            "rate_alloc" => Plan::Rates { rates: rate_alloc(instance, run)?.rates, execution },
            _ => Plan::Weights { weights: weight_gp(instance, run)?.weights, execution },
        };
        let seconds = begin.elapsed().as_secs_f64();
        total += seconds;
        all.push(Played { method: method.into(), mean: plan.execute(instance)?.mean, seconds, standing: None });
        plans.push(Candidate::new(method, Ok(plan)));
    }
    let begin = Instant::now();
    let light = method::best(instance, &method::Options::default(), None, run)?;
    plans.push(Candidate::new(light.name, Ok(light.plan)));
    let best = portfolio::best(instance, plans, &mut || false)?;
    let seconds = total + begin.elapsed().as_secs_f64();
    all.push(Played { method: "portfolio".into(), mean: best.outcome.mean, seconds, standing: None });
    Ok(all)
}

/// TE-CCL's.
fn theirs(instance: &Instance, chunks: u64, limit: Duration, run: &Run<'_>) -> Result<Vec<Played>, Failure> {
    let mut all = Vec::new();
    for form in Form::ALL {
        for epochs in Epochs::ALL {
            let begin = Instant::now();
            let decision = decide(instance, Options { form, epochs, chunks, limit }, run)?;
            let seconds = begin.elapsed().as_secs_f64();
            for (word, execution) in [("", Execution::Static), (" filled", Execution::WorkConserving)] {
                all.push(Played {
                    method: format!("TE-CCL {} {}{word}", form.word(), epochs.word()),
                    mean: decision.execute(execution)?.mean,
                    seconds,
                    standing: Some(decision.standing),
                });
            }
        }
    }
    Ok(all)
}

fn print(k: u64, size: u64, chunks: u64, all: &[Vec<Played>]) {
    let count = all.len() as f64;
    for place in 0..all.first().map_or(0, Vec::len) {
        let of: Vec<&Played> = all.iter().filter_map(|played| played.get(place)).collect();
        let mean = of.iter().map(|played| played.mean).sum::<f64>() / count;
        let square = of.iter().map(|played| (played.mean - mean).powi(2)).sum::<f64>();
        let deviation = (square / (count - 1.0).max(1.0)).sqrt();
        let seconds = of.iter().map(|played| played.seconds).sum::<f64>() / count;
        let mut standings: BTreeMap<Standing, usize> = BTreeMap::new();
        of.iter()
            .filter_map(|played| played.standing)
            .for_each(|standing| *standings.entry(standing).or_default() += 1);
        let standings: Vec<String> =
            standings.iter().map(|(standing, count)| format!("{} {count}", standing.word())).collect();
        let method = of.first().map_or("", |played| &played.method);
        println!("{method}\t{k}\t{size}\t{chunks}\t{mean:.3}\t{deviation:.3}\t{seconds:.3}\t{}", standings.join(", "));
    }
}

fn main() -> Result<(), Failure> {
    let asked = Asked::new()?;
    let seeds: u64 = asked.text("seeds", "5").parse()?;
    let limit = Duration::from_secs_f64(asked.text("limit", "5").parse()?);
    let is_fixed = asked.text("chunk", "flow") == "fixed";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wan/data/Abilene.graphml");
    let graph = Graph::graphml(&std::fs::read(path)?, "Abilene")?;
    let run = Run::quiet(1);
    let who = asked.text("who", "all");
    println!("method\tK\tsize\tchunks\tmean_s\tsd_s\tplan_s\tstanding");
    for k in asked.list("k", "2,4,8")? {
        for size in asked.list("sizes", "1,2,4,8,16")? {
            let chunks = if is_fixed { size } else { 1 };
            let mut all = Vec::new();
            for seed in 1..=seeds {
                let workload = Workload { scale: size as f64, ..Workload::new(&graph, usize::try_from(k)?, seed) };
                let instance = workload.generate()?;
                let mut played = if who != "theirs" { ours(&instance, &run)? } else { Vec::new() };
                if who != "ours" {
                    played.extend(theirs(&instance, chunks, limit, &run)?);
                }
                all.push(played);
            }
            print(k, size, chunks, &all);
        }
    }
    Ok(())
}
