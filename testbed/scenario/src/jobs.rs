//! Jobs: what a scenario says about one, checked against models, hosts and its own architecture.

use crate::quantities::{GIGA, Quantity};
use sluice_formats::document::{Item, Table};
use sluice_formats::problem::{Code, E_ARCH, E_CYCLE, E_DUP, E_KEY, E_LIMIT, E_MISSING, E_RANGE, E_REF, hint};
use sluice_formats::quantity::Rational;
use std::collections::{BTreeMap, HashMap};

use sluice_schedule::Nanos;

use super::model::{Compute, MAX_BYTES, MAX_COMPUTE_S, Model, read_compute};
use super::network::read::id_of;
use super::network::{Network, NodeIx};
use super::order::topological;

/// How the members of a job talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// Ring all-reduce: every rank sends to the next.
    Ring,
    /// Workers send gradients to parameter servers, which send back their sum.
    Ps,
    /// Reduce up a tree, broadcast down.
    Tree,
    /// Whatever flows the job lists.
    Flows,
    /// Nothing is sent: compute only.
    None,
}

impl Arch {
    /// Its word in a scenario.
    pub const fn as_str(self) -> &'static str {
        ARCHS[self as usize].0
    }
}

/// The format's words, in the order of the enum.
pub(crate) const ARCHS: [(&str, Arch); 5] =
    [("ring", Arch::Ring), ("ps", Arch::Ps), ("tree", Arch::Tree), ("flows", Arch::Flows), ("none", Arch::None)];

/// What the job's library can do with data that is still arriving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dependency {
    /// Pass on what has arrived.
    #[default]
    Pipelined,
    /// Wait for all of it.
    StartAfter,
}

pub(crate) const DEPENDENCIES: [(&str, Dependency); 2] =
    [("pipelined", Dependency::Pipelined), ("start-after", Dependency::StartAfter)];

/// A flow of a `flows` job; predecessors by index in the job's list.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenFlow {
    /// Unique among the flows of the job.
    pub id: String,
    /// The host that sends.
    pub src: NodeIx,
    /// The host that receives.
    pub dst: NodeIx,
    /// Bytes it carries in every round.
    pub bytes: u64,
    /// May pass on what these have delivered.
    pub pipelined: Vec<usize>,
    /// Starts when these have ended.
    pub after: Vec<usize>,
    /// Ideal end after the round's ideal end, for staged jobs.
    pub ideal_offset: Nanos,
}

/// The hosts of a job's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Host of each worker, by rank.
    pub workers: Vec<NodeIx>,
    /// Host of each parameter server.
    pub servers: Vec<NodeIx>,
}

/// A training job as the file or a draw describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Unique in the scenario.
    pub id: String,
    /// The model's name, where one was named.
    pub model: Option<String>,
    /// How its members talk.
    pub arch: Arch,
    /// Gradient bytes per iteration.
    pub bytes: u64,
    /// Compute time of one iteration, `compute_scale` included.
    pub compute: Nanos,
    /// Compute time of each iteration, where they were given one by one, the last one again and again; `compute` is their mean.
    pub computes: Vec<Nanos>,
    /// Workers; 0 only for `flows`.
    pub workers: u32,
    /// Number of parameter servers; 0 except for `ps`.
    pub servers: u32,
    /// Iterations until it ends.
    pub iterations: u32,
    /// When it enters the queue, from the scenario's time 0.
    pub arrival: Nanos,
    /// For weighted metrics and orders.
    pub weight: f64,
    /// Children of a tree node.
    pub fanout: u32,
    /// Share of the compute phase that may be left when the round begins.
    pub overlap: f64,
    /// Whole messages of this size are passed on; 0: bytes.
    pub granule: u64,
    /// Relative deviation of compute times.
    pub jitter: f64,
    /// Hosts the job names itself.
    pub pinned: Option<Placement>,
    /// What its library can do.
    pub dependency: Dependency,
    /// Flows of a `flows` job.
    pub flows: Vec<GivenFlow>,
    /// Floating-point operations per iteration.
    pub flops: Option<f64>,
    /// Samples per worker and iteration, as text.
    pub batch: Option<String>,
}

/// `[defaults]`: what holds for jobs that do not say otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Factor on every compute time; must be printed with every result.
    pub compute_scale: Rational,
    /// The job key `overlap`.
    pub overlap: f64,
    /// The job key `compute_jitter`.
    pub jitter: f64,
    /// The job key `dependency`.
    pub dependency: Dependency,
    /// The job key `granule_bytes`.
    pub granule: u64,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            compute_scale: Rational::ONE,
            overlap: 0.0,
            jitter: 0.0,
            dependency: Dependency::Pipelined,
            granule: 0,
        }
    }
}

pub(crate) fn defaults(t: Table<'_>) -> Defaults {
    let d = Defaults {
        compute_scale: t.number("compute_scale", &Rational::ZERO, &Rational::from(1000)).unwrap_or(Rational::ONE),
        overlap: t.chance("overlap").unwrap_or(0.0),
        jitter: t.float("compute_jitter", &Rational::ZERO, &Rational::ONE).unwrap_or(0.0),
        dependency: t.choice("dependency", &DEPENDENCIES).unwrap_or_default(),
        granule: t.int("granule_bytes", 0..=MAX_BYTES).unwrap_or(0),
    };
    t.finish();
    d
}

impl Job {
    /// Compute time of an iteration, from 0, before jitter.
    pub fn compute_of(&self, iteration: u64) -> Nanos {
        let at = usize::try_from(iteration).ok().and_then(|at| self.computes.get(at));
        at.or(self.computes.last()).copied().unwrap_or(self.compute)
    }
}

/// Everything a job refers to.
pub(crate) struct Scene<'a> {
    pub(crate) network: &'a Network,
    pub(crate) models: &'a BTreeMap<String, Model>,
    pub(crate) defaults: &'a Defaults,
}

/// The model of this name, or an error at `item`.
pub(crate) fn model_of<'m>(item: &Item<'_>, models: &'m BTreeMap<String, Model>) -> Option<(String, &'m Model)> {
    let name = item.text()?;
    let model = models.get(name);
    if model.is_none() {
        let near = hint(name, models.keys().map(String::as_str)).map(|hint| format!("; {hint}"));
        let known = models.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        item.fail(E_REF, format!("no model {name:?}{}", near.unwrap_or_default()), &known);
    }
    model.map(|m| (name.to_owned(), m))
}

/// Compute time of one iteration, scaled; `None` when it is out of all bounds.
pub(crate) fn compute_time(compute: &Compute, workers: u32, scale: &Rational) -> Option<Nanos> {
    (&compute.seconds(workers)? * scale).to_units(GIGA).map(Nanos)
}

/// Most flows of one round.
const MAX_FLOWS: u64 = 10_000;

/// What is wrong with these counts for this architecture, if anything: code, what, allowed.
pub(crate) fn misfit(arch: Arch, workers: u32, servers: u32) -> Option<(Code, String, &'static str)> {
    match arch {
        Arch::Ps if servers == 0 => Some((E_ARCH, "ps without servers".into(), "servers from 1 to workers × 4")),
        Arch::Ps if u64::from(servers) > u64::from(workers) * 4 => {
            Some((E_RANGE, format!("{servers} servers for {workers} workers"), "servers from 1 to workers × 4"))
        }
        Arch::Ps if u64::from(servers) * u64::from(workers) * 2 > MAX_FLOWS => {
            let flows = u64::from(servers) * u64::from(workers) * 2;
            Some((E_LIMIT, format!("{flows} flows in a round"), "at most 10000"))
        }
        Arch::Ring | Arch::Tree | Arch::None | Arch::Flows if servers > 0 => {
            Some((E_ARCH, format!("{} with servers", arch.as_str()), "servers only with arch = \"ps\""))
        }
        _ => None,
    }
}

/// Reads one entry of `jobs`.
pub(crate) fn read(item: &Item<'_>, scene: &Scene<'_>) -> Option<Job> {
    let t = item.table()?;
    let d = scene.defaults;
    let id = t.require("id").and_then(|i| id_of(&i));
    let model = t.get("model").and_then(|i| model_of(&i, scene.models));
    let bytes = t.int("bytes", 1..=MAX_BYTES).or(model.as_ref().map(|(_, m)| m.bytes));
    let list = t.list("compute_list_s").map(|list| compute_list(&t, &list, &d.compute_scale));
    let mean = list.as_ref().and_then(|list| list.mean.clone());
    let compute = read_compute(&t).or(mean.map(Compute::PerWorker)).or(model.as_ref().map(|(_, m)| m.compute.clone()));
    t.require("arch");
    let arch = t.choice("arch", &ARCHS);
    let pinned = t.table("placement").map(|p| read_pinned(&p, scene.network).inspect(|_| p.finish()));
    let given = (t.int32("workers", 1..=1024), t.int32("servers", 0..=4096));
    let iterations = t.require("iterations").and_then(|i| i.int(&(1..=10_000_000)));
    let arrival = t.get("arrival_s").and_then(|i| i.seconds()).unwrap_or_default();
    let tiny = Rational::new(1, 1_000_000_000).unwrap_or(Rational::ONE);
    let weight = t.float("weight", &tiny, &Rational::from(GIGA)).unwrap_or(1.0);
    let fanout = t.int32("fanout", 1..=1024).unwrap_or(2);
    let overlap = t.chance("overlap").unwrap_or(d.overlap);
    let granule = t.int("granule_bytes", 0..=MAX_BYTES).unwrap_or(d.granule);
    let jitter = t.float("compute_jitter", &Rational::ZERO, &Rational::ONE).unwrap_or(d.jitter);
    let dependency = t.choice("dependency", &DEPENDENCIES).unwrap_or(d.dependency);
    let flops = t.float("flops", &Rational::ZERO, &Rational::new(10_i128.pow(30), 1).unwrap_or(Rational::ONE));
    let flows = t.list("flows");
    t.finish();
    let missing = |key: &str, what: &str| t.fail(E_MISSING, format!("{key} is missing"), what);
    let arch = arch?;
    let needs_bytes = !matches!(arch, Arch::Flows | Arch::None);
    if needs_bytes && bytes.is_none() && !t.has("model") && !t.has("bytes") {
        missing("model", "model, or bytes and compute_s");
    }
    if compute.is_none()
        && !t.has("model")
        && !["compute_s", "full_batch_s", "compute_list_s"].iter().any(|key| t.has(key))
    {
        missing("compute_s", "model, or bytes and compute_s");
    }
    if flows.is_some() != (arch == Arch::Flows) {
        t.fail(E_ARCH, "flows and arch do not agree", "flows exactly where arch = \"flows\"");
    }
    let pinned = match pinned {
        Some(None) => return None,
        Some(Some(p)) => Some(p),
        None => None,
    };
    let (workers, servers) = counts(&t, arch, given, pinned.as_ref())?;
    if let Some((code, what, allowed)) = misfit(arch, workers, servers) {
        t.fail(code, what, allowed);
    }
    let steps = ring_chunks(u64::from(workers));
    if arch == Arch::Ring && dependency == Dependency::StartAfter && steps > MAX_FLOWS {
        let what = format!("a ring of {workers} that passes on whole chunks has {steps} flows in a round");
        t.fail(E_LIMIT, what, "at most 10000: fewer workers, or dependency = \"pipelined\"");
    }
    let flows = flows.map(|list| read_flows(&t, &list, scene.network)).unwrap_or_default();
    let compute = compute.and_then(|c| {
        let time = compute_time(&c, workers, &d.compute_scale);
        if time.is_none() {
            t.fail(E_RANGE, "the compute time is out of range", "");
        }
        time
    });
    let (batch, named) = (model.as_ref().and_then(|(_, m)| m.batch.clone()), model.as_ref());
    let job = Job {
        id: id?,
        model: named.map(|(n, _)| n.clone()),
        arch,
        bytes: if needs_bytes { bytes? } else { bytes.unwrap_or(0) },
        compute: compute?,
        computes: list.map(|list| list.times).unwrap_or_default(),
        workers,
        servers,
        iterations: u32::try_from(iterations?).ok()?,
        arrival,
        weight,
        fanout,
        overlap,
        granule,
        jitter,
        pinned,
        dependency,
        flows,
        flops: flops.or(named.and_then(|(_, m)| m.flops)),
        batch,
    };
    Some(job)
}

/// Compute times one by one.
struct ComputeList {
    /// Scaled.
    times: Vec<Nanos>,
    /// Seconds, before they are scaled.
    mean: Option<Rational>,
}

fn compute_list(t: &Table<'_>, list: &[Item<'_>], scale: &Rational) -> ComputeList {
    if t.has("compute_s") || t.has("full_batch_s") {
        t.fail(E_KEY, "compute_list_s excludes compute_s and full_batch_s", "one of the three");
    }
    if list.is_empty() {
        t.fail(E_RANGE, "compute_list_s is empty", "the compute time of each iteration, the last one again and again");
    }
    let most = Rational::from(MAX_COMPUTE_S);
    let seconds = list.iter().filter_map(|i| i.number_in(&Rational::ZERO, &most, "seconds, 0 to 604800"));
    let seconds: Vec<Nanos> = seconds.filter_map(|s| s.to_units(GIGA)).map(Nanos).collect();
    let sum: i128 = seconds.iter().map(|time| i128::from(time.0)).sum();
    let mean = Rational::new(sum, (seconds.len().max(1) as i128).saturating_mul(i128::from(GIGA)));
    let scaled = |time: &Nanos| scale.to_units(time.0).map(Nanos);
    ComputeList { times: seconds.iter().filter_map(scaled).collect(), mean }
}

/// Workers and servers, from the placement where there is one.
fn counts(
    t: &Table<'_>,
    arch: Arch,
    given: (Option<u32>, Option<u32>),
    pinned: Option<&Placement>,
) -> Option<(u32, u32)> {
    if let Some(p) = pinned {
        let count = |list: &[NodeIx]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let (w, s) = (count(&p.workers), count(&p.servers));
        if given.0.is_some_and(|g| g != w) || given.1.is_some_and(|g| g != s) {
            t.fail(E_KEY, format!("the placement names {w} workers and {s} servers"), "counts that agree with it");
        }
        if w == 0 && arch != Arch::Flows {
            t.fail(E_RANGE, "the placement names no worker", "1 to 1024 workers");
        }
        return Some((w, s));
    }
    if arch == Arch::Flows {
        if given.0.is_some() {
            t.fail(E_ARCH, "a flows job has no workers", "no workers, or placement.workers");
        }
        return Some((0, given.1.unwrap_or(0)));
    }
    if given.0.is_none() && !t.has("workers") {
        t.fail(E_MISSING, "workers is missing", "1 to 1024, or a placement");
    }
    Some((given.0?, given.1.unwrap_or(0)))
}

fn read_pinned(t: &Table<'_>, network: &Network) -> Option<Placement> {
    let hosts = |key| -> Vec<NodeIx> {
        t.list(key).unwrap_or_default().iter().filter_map(|i| super::settings::host(i, network)).collect()
    };
    let before = t.item.collector.count();
    let pinned = Placement { workers: hosts("workers"), servers: hosts("servers") };
    if pinned.workers.len() > 1024 || pinned.servers.len() > 4096 {
        t.fail(E_RANGE, "too many members", "at most 1024 workers and 4096 servers");
    }
    (t.item.collector.count() == before).then_some(pinned)
}

fn read_flows(job: &Table<'_>, list: &[Item<'_>], network: &Network) -> Vec<GivenFlow> {
    if list.is_empty() {
        job.fail(E_ARCH, "no flows", "at least one flow");
    }
    if list.len() as u64 > MAX_FLOWS {
        job.fail(E_LIMIT, format!("{} flows in a round", list.len()), "at most 10000");
        return Vec::new();
    }
    let before = job.item.collector.count();
    let mut flows = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    let mut edges: Vec<[Vec<Item<'_>>; 2]> = Vec::new();
    for item in list {
        let Some(t) = item.table() else { continue };
        let id = t.require("id").and_then(|i| id_of(&i));
        let end = |key| t.require(key).and_then(|i| super::settings::host(&i, network));
        let (src, dst) = (end("src"), end("dst"));
        let bytes = t.require("bytes").and_then(|i| i.int(&(1..=MAX_BYTES)));
        let ideal_offset = t.get("ideal_offset_s").and_then(|i| i.seconds()).unwrap_or_default();
        let preds = [t.list("pipelined").unwrap_or_default(), t.list("after").unwrap_or_default()];
        t.finish();
        let (Some(id), Some(src), Some(dst), Some(bytes)) = (id, src, dst, bytes) else { continue };
        if src == dst {
            item.fail(E_ARCH, format!("flow {id:?} goes from a host to itself"), "src different from dst");
        }
        if index.insert(id.clone(), flows.len()).is_some() {
            item.fail(E_DUP, format!("flow {id:?} stands twice"), "each id once");
        }
        flows.push(GivenFlow { id, src, dst, bytes, pipelined: Vec::new(), after: Vec::new(), ideal_offset });
        edges.push(preds);
    }
    for (flow, [pipelined, after]) in flows.iter_mut().zip(edges) {
        let resolve = |items: Vec<Item<'_>>| -> Vec<usize> {
            let found = |i: &Item<'_>| {
                let found = index.get(i.text()?).copied();
                if found.is_none() {
                    i.fail(E_REF, format!("no flow {}", i.node.value.shown()), "an id of this job's flows");
                }
                found
            };
            items.iter().filter_map(found).collect()
        };
        flow.pipelined = resolve(pipelined);
        flow.after = resolve(after);
    }
    if job.item.collector.count() == before && has_cycle(&flows) {
        job.fail(E_CYCLE, "the dependencies of the flows run in a circle", "after and pipelined without a circle");
    }
    flows
}

fn has_cycle(flows: &[GivenFlow]) -> bool {
    let preds = |i: usize| flows[i].pipelined.iter().chain(&flows[i].after).copied();
    topological(flows.len(), preds).len() < flows.len()
}

/// Chunks a ring of so many ranks passes on in a round, over all ranks: the flows of a round in steps of chunks.
pub fn ring_chunks(ranks: u64) -> u64 {
    ranks.saturating_mul(2 * ranks.saturating_sub(1))
}
