//! Four jobs of four models on six hosts, all at once: the simulator's `fixed-mix` on real TCP.

use sluice_report::PolicyRun;
use sluice_scenario::Transport;
use sluice_schedule::{Bytes, Nanos, Rate};

use super::Bench;
use super::capacity::queue;
use crate::fabric::FabricSpec;
use crate::job::Arch;
use crate::run::{FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan};

/// Options of `sluice-experiment mix`.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Rate of the network that is scaled down, Gbit/s.
    #[arg(long, default_value_t = 25.0)]
    pub gbps: f64,
    /// Divides rates and bytes.
    #[arg(long, default_value_t = 50.0)]
    pub scale: f64,
    /// Multiplies compute times.
    #[arg(long, default_value_t = 0.25)]
    pub compute_scale: f64,
    /// Multiplies iterations.
    #[arg(long, default_value_t = 1)]
    pub longer: u64,
    /// Bytes a switch port queues; default: 5 ms of its rate.
    #[arg(long)]
    pub queue: Option<u64>,
    /// Largest burst of the stack, bytes.
    #[arg(long)]
    pub gso: Option<u64>,
    /// How daemons speak to switches: session, unary or udp.
    #[arg(long, default_value = "session")]
    pub transport: Transport,
    /// Policies, each of which runs all four jobs.
    #[arg(
        long = "policy",
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "fair:cubic,fair:reno,fair:bbr"
    )]
    pub policies: Vec<Policy>,
    /// How often each policy runs.
    #[arg(long, default_value_t = 1)]
    pub repeats: usize,
}

/// The plan and the places.
fn fixed_mix(settings: &Settings) -> (RunPlan, Vec<Placement>) {
    let &Settings { gbps, scale, compute_scale, longer, .. } = settings;
    let rate = Rate((gbps * 1e9 / scale) as u64);
    let job = |id: &str, arch, workers, servers, megabytes: f64, iterations, compute: f64| JobPlan {
        model: id.into(),
        arch,
        servers,
        compute: vec![Nanos((compute * compute_scale * 1e9) as u64)],
        ..JobPlan::ring(id, workers, Bytes((megabytes * 1e6 / scale) as u64), iterations * longer)
    };
    let jobs = vec![
        job("vgg19", Arch::Ring, 3, 0, 576.0, 8, 0.6),
        job("vgg16", Arch::Ps, 2, 2, 552.0, 8, 0.52),
        job("resnet50", Arch::Ps, 2, 2, 102.0, 16, 0.3),
        job("gpt2", Arch::Ring, 3, 0, 1200.0, 4, 1.6),
    ];
    let place = |workers: &[usize], servers: &[usize]| Placement { workers: workers.into(), servers: servers.into() };
    let places = vec![place(&[0, 1, 2], &[]), place(&[3, 4], &[0, 5]), place(&[1, 2], &[3, 5]), place(&[0, 4, 5], &[])];
    let mut fabric = FabricSpec::star(6, rate, settings.queue.map_or(queue(rate), Bytes));
    fabric.gso_max = settings.gso.map_or(fabric.gso_max, Bytes);
    let transport = settings.transport;
    (RunPlan { name: "fixed-mix".into(), fabric, jobs, transport, ..RunPlan::default() }, places)
}

/// Every policy as often as asked for, policy by policy within each repeat.
///
/// # Errors
/// As a run.
pub fn run_mix(bench: &Bench<'_>, settings: &Settings) -> Result<Vec<PolicyRun>, RunError> {
    let (plan, places) = fixed_mix(settings);
    let mut runs = Vec::new();
    for repeat in 0..settings.repeats {
        for policy in &settings.policies {
            let name = format!("{}-{repeat}", policy.file_part());
            let mut run = bench.run(&plan, &mut FixedQueue::new(places.clone()), policy, &name)?;
            run.repeat = repeat;
            runs.push(run);
        }
    }
    Ok(runs)
}
