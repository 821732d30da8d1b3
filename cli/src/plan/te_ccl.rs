//! `sluice plan te-ccl`: reads a fabric, plans sends in epochs, writes the plan, shows the figures.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use sluice_formats::problem::{E_KEY, E_RANGE, Problem, Problems, UNKNOWN_NODE};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::plan::{Collective, Demands, MAX_DEMANDS, Status};
use sluice_planners::teccl::demand::Wanted;
#[cfg(feature = "lp")]
use sluice_planners::teccl::divided;
use sluice_planners::teccl::lane::{EpochLength, Place, Straggler};
use sluice_planners::teccl::{Ending, Figures, Instance, Made, Mode, Objective, Options, Volume, make};
use sluice_planners::{Request, Run};

use super::args::{Decider, Slow, Sought, TeCclArgs};
use super::made::{bytes, deliver, flags, made_by, on_fabric};
use super::shown::{Head, seconds, short};
use super::{LIMIT, files};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

/// The parameters that are flags.
const PARAMETERS: [&str; 14] = [
    "chunk",
    "chunks",
    "collective",
    "epoch",
    "epoch-multiplier",
    "epochs",
    "hyper-edges",
    "mode",
    "participants",
    "root",
    "size",
    "solver",
    "theta",
    "objective",
];

pub fn run(global: &Global, args: &TeCclArgs) -> Result<ExitCode, Failure> {
    let wanted = args.demands.as_deref().map(wanted).transpose()?;
    let (topology, (made, ignored, warnings), spent) =
        on_fabric(global, &args.fabric, &args.planning, |topology, run, watch| {
            let participants = (!args.participants.is_empty()).then_some(&*args.participants);
            let (root, ignore) = (args.root.as_deref(), &*args.ignore);
            let request = Request { collective: collective(args), participants, root, ignore };
            let options = options(args, topology, wanted)?;
            let flagged = |errors| flags(errors, &PARAMETERS);
            let instance = Instance::new(topology, &request, &options, &args.fabric.name()).map_err(flagged)?;
            let mut made = solved(args, &instance, run).map_err(flagged)?;
            let took = args.planning.timing.then(|| watch.elapsed());
            made.plan.body.made_by = Some(made_by(command(args), took));
            Ok((made, instance.ignored().to_vec(), instance.warnings().to_vec()))
        })?;
    for (code, message) in warnings {
        eprintln!("warning[{code}]: {message}");
    }
    let limited = made.figures.status == Status::TimeLimit;
    let Some(written) = deliver(args.planning.out.as_deref(), || made.plan.to_text())? else {
        return Ok(exit(limited));
    };
    if !global.quiet {
        let head = Head::new("te-ccl", collective(args), (&made.figures.claim, None), written.0)?;
        let shown = Shown::new(head, &made.figures, spent.total.as_secs_f64());
        output::one(global, &shown, || shown.text(&topology, &made.figures, &ignored))?;
    }
    Ok(exit(limited))
}

/// A limit was reached, and the best plan until then was written.
fn exit(limited: bool) -> ExitCode {
    if limited { ExitCode::from(LIMIT) } else { ExitCode::SUCCESS }
}

/// What demands in a file make is a collective of its own.
fn collective(args: &TeCclArgs) -> Collective {
    args.collective.unwrap_or(Collective::Custom)
}

/// A file of demands.
fn wanted(path: &Path) -> Result<Wanted, Problems> {
    let file = files::name(path);
    let bytes = files::read(path, MAX_DEMANDS as u64)?;
    let (demands, names) = Demands::read(&bytes, &file)?;
    Ok(Wanted { demands, names, file })
}

#[cfg(feature = "lp")]
fn solved(args: &TeCclArgs, instance: &Instance<'_>, run: &Run<'_>) -> Result<Made, Problems> {
    use sluice_planners_lp::teccl::{flow::Flow, milp::Milp, rounds::Rounds};
    let seed = args.seed;
    match args.solver {
        Decider::Nobody => make(instance, None, run),
        Decider::Auto | Decider::Milp => make(instance, Some(&Milp { seed }), run),
        Decider::Astar => make(instance, Some(&Rounds { seed, epochs: args.epochs }), run),
        Decider::Lp => divided::make(instance, &Flow { seed }, run),
    }
}

#[cfg(not(feature = "lp"))]
fn solved(args: &TeCclArgs, instance: &Instance<'_>, run: &Run<'_>) -> Result<Made, Problems> {
    if !matches!(args.solver, Decider::Auto | Decider::Nobody) {
        let error = Problem::new(E_RANGE, "--solver", "this sluice was built without a solver");
        return Err(error.allowed("auto, none").help("build it with the feature `lp`").into());
    }
    make(instance, None, run)
}

/// What is sought; options that would do nothing are refused.
fn mode(args: &TeCclArgs) -> Result<Mode, Problems> {
    let refuse =
        |flag: &str, message: &str, allowed: &str| Err(Problem::new(E_KEY, flag, message).allowed(allowed).into());
    if args.objective.is_some() && args.mode != Sought::Objective {
        return refuse("--objective", "this mode has no objective", "--mode objective");
    }
    let astar = args.solver == Decider::Astar;
    if astar && args.mode != Sought::MinEpochs {
        return refuse("--mode", "rounds end when everything is there", "--mode min-epochs with --solver astar");
    }
    match (args.mode, args.epochs) {
        (Sought::Feasible, Some(epochs)) => Ok(Mode::Feasible(epochs)),
        (Sought::MinEpochs, Some(_)) if !astar => refuse(
            "--epochs",
            "the fewest epochs are what is looked for",
            "--mode feasible or objective, --solver astar",
        ),
        (Sought::Feasible, None) | (Sought::MinEpochs, _) => Ok(Mode::MinEpochs),
        (Sought::Objective, epochs) => {
            Ok(Mode::Objective { objective: args.objective.unwrap_or(Objective::Harmonic), epochs })
        }
    }
}

fn options(args: &TeCclArgs, topology: &Topology, wanted: Option<Wanted>) -> Result<Options, Problems> {
    let volume = match (&args.size, &args.chunk) {
        (Some(size), _) => Volume::Size(bytes(size, "--size")?),
        (None, Some(chunk)) => Volume::Chunk(bytes(chunk, "--chunk")?),
        (None, None) => return Err(Problem::new(E_RANGE, "--size", "how much data there is").allowed("1GB").into()),
    };
    let straggler =
        |slow: &Slow, place| Straggler { place, alpha_add: slow.alpha_add.clone(), beta_mul: slow.beta_mul.clone() };
    let mut stragglers = Vec::new();
    for slow in &args.slow_links {
        let links = topology.links().len();
        let link = slow.place.parse().ok().filter(|link: &usize| *link < links).ok_or_else(|| {
            let error = Problem::new(E_RANGE, "--slow-link", "no link has this index").found(&slow.place);
            Problems::from(error.allowed(format!("0 to {}", links.saturating_sub(1))))
        })?;
        stragglers.push(straggler(slow, Place::Link(link)));
    }
    for slow in &args.slow_nodes {
        let node = topology.node(&slow.place).ok_or_else(|| {
            let error = Problem::new(UNKNOWN_NODE, "--slow-node", "no node has this id").found(&slow.place);
            Problems::from(error.allowed("an id of /nodes"))
        })?;
        stragglers.push(straggler(slow, Place::Node(node)));
    }
    Ok(Options {
        volume,
        chunks: args.chunks.unwrap_or(1),
        epoch: args.epoch.clone(),
        multiplier: args.epoch_multiplier.clone(),
        theta: args.theta.clone(),
        free_second_hop: args.free_second_hop,
        hyper_edges: args.hyper_edges,
        stragglers,
        mode: mode(args)?,
        wanted,
        divisible: args.solver == Decider::Lp,
        seed: args.seed.into(),
    })
}

/// The results, under their fixed names.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    head: Head,
    epochs: u64,
    epoch_us: f64,
    finish_us: f64,
    lower_bound_epochs: u64,
    /// What is gained by the mode `objective`; else the epochs.
    objective: f64,
    /// What nothing is better than, in the same measure.
    bound: f64,
    gap: f64,
    algbw: f64,
    status: &'static str,
    sends: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tenants: Vec<ShownTenant>,
    seconds: f64,
}

/// When a tenant has all it wants.
#[derive(Debug, Serialize)]
struct ShownTenant {
    name: String,
    finish_epochs: u64,
    finish_us: f64,
}

impl Shown {
    fn new(head: Head, figures: &Figures, seconds: f64) -> Shown {
        Shown {
            head,
            epochs: figures.epochs,
            epoch_us: figures.epoch_us.to_f64(),
            finish_us: figures.finish_us.to_f64(),
            lower_bound_epochs: figures.lower_bound,
            objective: figures.worth.map_or(figures.epochs as f64, |worth| worth.value),
            bound: figures.worth.map_or(figures.lower_bound as f64, |worth| worth.bound),
            gap: match &figures.worth {
                Some(worth) => worth.gap(),
                None => (figures.epochs - figures.lower_bound) as f64 / figures.epochs.max(1) as f64,
            },
            algbw: figures.bandwidth.to_f64(),
            status: figures.status.word(),
            sends: figures.sends,
            tenants: figures.tenants.iter().map(ShownTenant::from).collect(),
            seconds,
        }
    }

    fn text(&self, topology: &Topology, figures: &Figures, ignored: &[&str]) -> String {
        let name = if topology.name().is_empty() { "this fabric" } else { topology.name() };
        let mut text = format!("{} on {name}\n", self.head.collective);
        let mut line = |what: &str, said: String| text += &format!("  {what:<12} {said}\n");
        let proof = match (figures.epochs == figures.lower_bound, figures.certificate) {
            (true, kind) => format!(", the fewest there can be ({})", kind.word()),
            (false, kind) => format!(", and none has fewer than {} ({})", figures.lower_bound, kind.word()),
        };
        line("epochs", format!("{}{proof}", self.epochs));
        line("epoch", seconds(self.epoch_us / 1e6));
        line("finish", seconds(self.finish_us / 1e6));
        line("bandwidth", format!("{} GB/s", short(self.algbw / 1e9)));
        line("sends", self.sends.to_string());
        if let Some(worth) = &figures.worth {
            let proof = match self.status {
                "optimal" => ", the most there can be".into(),
                _ => format!(", and none gains more than {:.6}", worth.bound),
            };
            let word = worth.objective.word();
            line("objective", format!("{word} {:.6} within {} epochs{proof}", worth.value, worth.epochs));
        }
        for tenant in &self.tenants {
            let end = seconds(tenant.finish_us / 1e6);
            line("tenant", format!("{} after {} epochs, {end}", tenant.name, tenant.finish_epochs));
        }
        text + &self.head.closing(&ignored.join(", "), self.seconds)
    }
}

impl From<&Ending> for ShownTenant {
    fn from(ending: &Ending) -> ShownTenant {
        let (name, finish_epochs) = (ending.name.to_string(), ending.epochs);
        ShownTenant { name, finish_epochs, finish_us: ending.us.to_f64() }
    }
}

/// The command that makes this plan again.
fn command(args: &TeCclArgs) -> String {
    let mut command = args.fabric.command("te-ccl", args.collective);
    command.add("--demands", args.demands.as_ref().map(|path| path.display()));
    command.add("--size", args.size.as_ref());
    command.add("--chunk", args.chunk.as_ref());
    command.add("--chunks", args.chunks.filter(|chunks| *chunks != 1));
    command.add(
        "--epoch",
        match &args.epoch {
            EpochLength::Fast => None,
            EpochLength::Slow => Some("slow".into()),
            EpochLength::Fixed(seconds) => Some(format!("{seconds}s")),
        },
    );
    let multiplier = &args.epoch_multiplier;
    command.add("--epoch-multiplier", (*multiplier != Rational::ONE).then_some(multiplier));
    command.add("--theta", Some(&args.theta));
    let mode = match args.mode {
        Sought::Feasible => Some("feasible"),
        Sought::MinEpochs => None,
        Sought::Objective => Some("objective"),
    };
    command.add("--mode", mode);
    command.add("--epochs", args.epochs);
    command.add("--objective", args.objective.map(Objective::word));
    let solver = match args.solver {
        Decider::Auto | Decider::Milp => None,
        Decider::Lp => Some("lp"),
        Decider::Astar => Some("astar"),
        Decider::Nobody => Some("none"),
    };
    command.add("--solver", solver);
    command.add_all("--participants", &args.participants);
    command.add("--root", args.root.as_ref());
    for (flag, slows) in [("--slow-link", &args.slow_links), ("--slow-node", &args.slow_nodes)] {
        for Slow { place, alpha_add, beta_mul } in slows {
            command.add(flag, Some(format!("{place},+{alpha_add}s,x{beta_mul}")));
        }
    }
    command.add("--seed", (args.seed != 0).then_some(args.seed));
    command.add_all("--ignore", &args.ignore);
    command.set("--free-second-hop", args.free_second_hop);
    command.set("--hyper-edges", args.hyper_edges);
    command.quoted()
}
