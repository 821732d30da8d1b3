//! `sluice plan te-ccl`: reads a fabric, plans sends in epochs, writes the plan, shows the figures.

use std::process::ExitCode;

use serde::Serialize;
use sluice_formats::problem::{E_RANGE, Problem, Problems, UNKNOWN_NODE};
use sluice_formats::quantity::Rational;
use sluice_formats::topology::Topology;
use sluice_plan::plan::Status;
use sluice_planners::Request;
use sluice_planners::teccl::lane::{EpochLength, Place, Straggler};
use sluice_planners::teccl::{Figures, Instance, Mode, Options, Search, Volume, make};

use super::LIMIT;
use super::args::{Decider, Slow, Sought, TeCclArgs};
use super::made::{Command, bytes, deliver, flags, made_by, on_fabric};
use super::shown::{Head, seconds, short};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;

/// The parameters that are flags.
const PARAMETERS: [&str; 9] =
    ["chunk", "chunks", "collective", "epoch", "epoch-multiplier", "epochs", "participants", "root", "theta"];

/// `sluice plan te-ccl`.
pub fn run(global: &Global, args: &TeCclArgs) -> Result<ExitCode, Failure> {
    let solver = solver(args)?;
    let (topology, (made, ignored, warnings), spent) =
        on_fabric(global, &args.fabric, &args.planning, |topology, run, watch| {
            let participants = (!args.participants.is_empty()).then_some(&*args.participants);
            let root = args.root.as_deref();
            let request = Request { collective: args.collective, participants, root, ignore: &args.ignore };
            let options = options(args, topology)?;
            let flagged = |errors| flags(errors, &PARAMETERS);
            let instance = Instance::new(topology, &request, &options, &args.fabric.name()).map_err(flagged)?;
            let mut made = make(&instance, solver.as_deref(), run).map_err(flagged)?;
            let took = args.planning.timing.then(|| watch.elapsed());
            made.plan.body.made_by = Some(made_by(command(args), took));
            Ok((made, instance.ignored().to_vec(), instance.warnings().to_vec()))
        })?;
    for (code, message) in warnings {
        eprintln!("warning[{code}]: {message}");
    }
    let limited = made.figures.status == Status::TimeLimit;
    let Some(written) = deliver(args.planning.out.as_deref(), &made.plan)? else { return Ok(exit(limited)) };
    if !global.quiet {
        let head = Head::new("te-ccl", args.collective, (&made.figures.claim, None), written.0)?;
        let shown = Shown::new(head, &made.figures, spent.total.as_secs_f64());
        output::one(global, &shown, || shown.text(&topology, &made.figures, &ignored))?;
    }
    Ok(exit(limited))
}

/// A limit was reached, and the best plan until then was written.
fn exit(limited: bool) -> ExitCode {
    if limited { ExitCode::from(LIMIT) } else { ExitCode::SUCCESS }
}

#[cfg(feature = "lp")]
fn solver(args: &TeCclArgs) -> Result<Option<Box<dyn Search>>, Problems> {
    let milp = || Box::new(sluice_planners_lp::teccl::Milp { seed: args.seed });
    Ok((args.solver != Decider::Nobody).then(|| milp() as Box<dyn Search>))
}

#[cfg(not(feature = "lp"))]
fn solver(args: &TeCclArgs) -> Result<Option<Box<dyn Search>>, Problems> {
    if args.solver == Decider::Milp {
        let error = Problem::new(E_RANGE, "--solver", "this sluice was built without a solver").found("milp");
        return Err(error.allowed("auto, none").help("build it with the feature `lp`").into());
    }
    Ok(None)
}

fn options(args: &TeCclArgs, topology: &Topology) -> Result<Options, Problems> {
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
        chunks: args.chunks,
        epoch: args.epoch.clone(),
        multiplier: args.epoch_multiplier.clone(),
        theta: args.theta.clone(),
        free_second_hop: args.free_second_hop,
        hyper_edges: args.hyper_edges,
        stragglers,
        mode: match (args.mode, args.epochs) {
            (Sought::Feasible, Some(epochs)) => Mode::Feasible(epochs),
            (Sought::Feasible, None) | (Sought::MinEpochs, _) => Mode::MinEpochs,
        },
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
    gap: f64,
    algbw: f64,
    status: &'static str,
    sends: usize,
    seconds: f64,
}

impl Shown {
    fn new(head: Head, figures: &Figures, seconds: f64) -> Shown {
        Shown {
            head,
            epochs: figures.epochs,
            epoch_us: figures.epoch_us.to_f64(),
            finish_us: figures.finish_us.to_f64(),
            lower_bound_epochs: figures.lower_bound,
            gap: (figures.epochs - figures.lower_bound) as f64 / figures.epochs.max(1) as f64,
            algbw: figures.bandwidth.to_f64(),
            status: figures.status.word(),
            sends: figures.sends,
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
        text + &self.head.closing(&ignored.join(", "), self.seconds)
    }
}

/// The command that makes this plan again.
fn command(args: &TeCclArgs) -> String {
    let mut command = Command::new("te-ccl", &args.fabric, args.collective);
    command.add("--size", args.size.as_ref());
    command.add("--chunk", args.chunk.as_ref());
    command.add("--chunks", (args.chunks != 1).then_some(args.chunks));
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
    if let (Sought::Feasible, Some(epochs)) = (args.mode, args.epochs) {
        command.add("--mode", Some("feasible"));
        command.add("--epochs", Some(epochs));
    }
    command.add("--solver", (args.solver == Decider::Nobody).then_some("none"));
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
