//! From the text of a scenario file to a [`Scenario`], or to all that is wrong with it.

use std::collections::HashSet;
use std::path::Path;

use sluice_formats::document::{Collector, Item, Node, Notation, Table};
use sluice_formats::file;
use sluice_formats::problem::{
    E_DUP, E_FIT, E_LIMIT, E_MISSING, E_PARSE, E_RANGE, E_REF, E_VERSION, Problem, Problems,
};

use crate::jobs::{self, Scene};
use crate::network::{self, Network};
use crate::scenario::Scenario;
use crate::set::{self, Set};
use crate::settings::{self, PlacementRules};
use crate::workload::place::Fits;
use crate::{arrivals, model, route, scheduler};

/// Most bytes of a scenario file.
const MAX_BYTES: u64 = 16 << 20;

impl Scenario {
    /// Reads a file; its extension says the notation.
    ///
    /// # Errors
    /// Every problem of the file and of the files it names.
    pub fn load(path: &Path) -> Result<Scenario, Problems> {
        Scenario::load_with(path, &[])
    }

    /// As [`Scenario::load`], with other values for some keys.
    ///
    /// # Errors
    /// As [`Scenario::load`], and keys that cannot be set.
    pub fn load_with(path: &Path, sets: &[Set]) -> Result<Scenario, Problems> {
        let name = path.display().to_string();
        let notation = match path.extension().and_then(|e| e.to_str()) {
            Some("toml") => Notation::Toml,
            Some("json") => Notation::Json,
            _ => {
                let problem = Problem::new(E_PARSE, "", "the file's name says neither TOML nor JSON");
                return Err(problem.allowed("*.toml or *.json").in_file(name).into());
            }
        };
        let text = file::load_text(path, MAX_BYTES)?;
        let base = path.parent().unwrap_or(Path::new("."));
        Scenario::parse_with(&text, notation, &name, base, sets)
    }

    /// Reads a text; `file` is its name in messages, `base` the folder its relative paths start from.
    ///
    /// # Errors
    /// Every problem of the text and of the files it names.
    pub fn parse(text: &str, notation: Notation, file: &str, base: &Path) -> Result<Scenario, Problems> {
        Scenario::parse_with(text, notation, file, base, &[])
    }

    /// As [`Scenario::parse`], with other values for some keys.
    ///
    /// # Errors
    /// As [`Scenario::parse`], and keys that cannot be set.
    pub fn parse_with(
        text: &str,
        notation: Notation,
        file: &str,
        base: &Path,
        sets: &[Set],
    ) -> Result<Scenario, Problems> {
        let collector = Collector::new(file, text, notation);
        let mut tree = Node::parse(&collector);
        sets.iter().for_each(|set| set::apply(&mut tree, set, &collector));
        // After a syntax error the rest would be guesses.
        let root = if collector.count() == 0 { Item::root(&tree, &collector).table() } else { None };
        let scenario = root.and_then(|table| read(table, base));
        match (scenario, Problems::of(collector.into_problems())) {
            (_, Some(problems)) => Err(problems),
            (Some(scenario), None) => Ok(scenario),
            (None, None) => Err(Problem::new(E_PARSE, "", "the scenario could not be read").in_file(file).into()),
        }
    }
}

fn read(t: Table<'_>, base: &Path) -> Option<Scenario> {
    version(&t);
    let name = t.require("name").and_then(|i| {
        let text = i.text()?;
        let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = text.len() <= 64 && text.starts_with(first) && text.chars().all(|c| first(c) || "._-".contains(c));
        if !good {
            i.fail(E_RANGE, format!("{text:?} is no name"), "[a-z0-9][a-z0-9._-]{0,63}");
        }
        good.then(|| text.to_owned())
    });
    let seed = t.int("seed", 0..=u64::MAX).unwrap_or(0);
    let time = t.table("time").map(settings::time).unwrap_or_default();
    let network = t.require("network").and_then(|i| i.table()).and_then(|n| network::read::read(n, base));
    let placement = t.table("placement").map_or_else(PlacementRules::standard, settings::placement);
    let defaults = t.table("defaults").map(jobs::defaults).unwrap_or_default();
    let mut models = model::built_in();
    for (entry, item) in t.table("models").iter().flat_map(Table::entries) {
        if let Some(model) = item.table().and_then(model::read) {
            models.insert(entry.name.clone(), model);
        }
    }
    let control = t.table("control").map(settings::control).unwrap_or_default();
    let cross_traffic = t.table("cross_traffic").and_then(settings::cross_traffic);
    let output = t.table("output").map(settings::output).unwrap_or_default();
    let testbed = t.table("testbed").map(settings::testbed).unwrap_or_default();
    let schedulers = t.table("scheduler").map(scheduler::read).unwrap_or_default();
    // What follows refers to the network; without one only the keys are known.
    let lists = [t.list("jobs"), t.list("cross_flows"), t.list("faults")];
    let (routing, loss, arrivals) = (t.table("routing"), t.get("loss"), t.table("arrivals"));
    if !t.has("jobs") && !t.has("arrivals") {
        t.fail(E_MISSING, "there is no job", "jobs or arrivals");
    }
    let [listed, cross, faults] = lists.map(Option::unwrap_or_default);
    if t.has("jobs") && listed.is_empty() && !t.has("arrivals") {
        t.fail(E_MISSING, "jobs is empty", "at least one job");
    }
    t.finish();
    // Without a network the jobs are still read, so that their own mistakes are listed too.
    let mut network = network.unwrap_or_else(Network::unknown);
    let known = !network.is_unknown();
    if let Some(item) = loss.filter(|_| known) {
        network::read::read_loss(&item, &mut network);
    }
    let routing = routing.filter(|_| known).map(|r| route::read(r, &network)).unwrap_or_default();
    let cross_flows = settings::cross_flows(&cross, &network);
    let faults = if known { settings::faults(&faults, &network) } else { Vec::new() };
    let scene = Scene { network: &network, models: &models, defaults: &defaults };
    let mut jobs = Vec::new();
    let mut ids = HashSet::new();
    let mut fitted = HashSet::new();
    let fits = Fits::new(&network, &placement);
    for item in &listed {
        let Some(job) = jobs::read(item, &scene) else { continue };
        if !ids.insert(job.id.clone()) {
            item.fail(E_DUP, format!("job {:?} stands twice", job.id), "each id once");
        }
        // Jobs of one shape fit alike; those that name their hosts do not.
        let new_shape = job.pinned.is_some() || fitted.insert((job.arch, job.workers, job.servers));
        if known
            && new_shape
            && let Err(why) = fits.ever(&job)
        {
            fitted.remove(&(job.arch, job.workers, job.servers));
            item.fail(E_FIT, format!("job {:?} can never be placed: {why}", job.id), "fewer members, or other hosts");
        }
        jobs.push(job);
    }
    let drawn = arrivals.and_then(|a| arrivals::read(a, &scene, seed, base));
    let dropped_jobs = drawn.as_ref().map_or(0, |d| d.dropped);
    let blame = |key, code, message: String, allowed: &str| {
        t.get(key).iter().for_each(|item| item.refuse(Problem::new(code, "", &message).allowed(allowed)));
    };
    let mut shapes = HashSet::new();
    for job in drawn.into_iter().flat_map(|d| d.jobs) {
        if !ids.insert(job.id.clone()) {
            blame("arrivals", E_DUP, format!("job {:?} is drawn and listed", job.id), "other ids in jobs");
        }
        if known
            && shapes.insert((job.arch, job.workers, job.servers))
            && let Err(why) = fits.ever(&job)
        {
            let what =
                format!("{} {} with {} workers can never be placed: {why}", job.id, job.arch.as_str(), job.workers);
            blame("arrivals", E_FIT, what, "fewer members, or more hosts");
        }
        jobs.push(job);
    }
    if jobs.len() > arrivals::MAX_JOBS {
        t.fail(E_LIMIT, format!("{} jobs", jobs.len()), "at most 1000000");
    }
    for id in schedulers.options.static_order.iter().filter(|id| !ids.contains(*id)) {
        blame("scheduler", E_REF, format!("no job {id:?} for static.order"), "an id of a job");
    }
    if !known {
        return None;
    }
    Some(Scenario {
        name: name?,
        seed,
        time,
        network,
        routing,
        placement,
        defaults,
        jobs,
        dropped_jobs,
        cross_flows,
        cross_traffic,
        control,
        faults,
        schedulers,
        output,
        testbed,
    })
}

fn version(t: &Table<'_>) {
    match t.get("version").map(|i| i.node.value.shown()) {
        Some(v) if v == "1" => {}
        Some(v) => t.fail(E_VERSION, format!("version {v}"), "1"),
        None => t.fail(E_VERSION, "version is missing", "1"),
    }
}
