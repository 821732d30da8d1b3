//! Four jobs of four models on six hosts, all at once: the simulator's `fixed-mix` on real TCP.

use sluice_report::PolicyRun;
use sluice_schedule::{Bytes, Nanos, Rate};

use super::Bench;
use super::capacity::queue;
use crate::fabric::FabricSpec;
use crate::job::Arch;
use crate::run::{FixedQueue, JobPlan, Placement, Policy, RunError, RunPlan};

/// The plan and the places: `gbps` is the real network's rate, `scale` divides rates and bytes, `compute_scale`
/// multiplies compute times.
pub fn fixed_mix(gbps: f64, scale: f64, compute_scale: f64) -> (RunPlan, Vec<Placement>) {
    let rate = Rate((gbps * 1e9 / scale) as u64);
    let job = |id: &str, arch, workers, servers, megabytes: f64, iterations, compute: f64| JobPlan {
        id: id.into(),
        model: id.into(),
        arch,
        workers,
        servers,
        fanout: 2,
        plan: None,
        bytes: Bytes((megabytes * 1e6 / scale) as u64),
        iterations,
        compute: vec![Nanos((compute * compute_scale * 1e9) as u64)],
        overlap: 0.0,
        arrival: Nanos::ZERO,
    };
    let jobs = vec![
        job("vgg19", Arch::Ring, 3, 0, 576.0, 8, 0.6),
        job("vgg16", Arch::Ps, 2, 2, 552.0, 8, 0.52),
        job("resnet50", Arch::Ps, 2, 2, 102.0, 16, 0.3),
        job("gpt2", Arch::Ring, 3, 0, 1200.0, 4, 1.6),
    ];
    let place = |workers: &[usize], servers: &[usize]| Placement { workers: workers.into(), servers: servers.into() };
    let places = vec![place(&[0, 1, 2], &[]), place(&[3, 4], &[0, 5]), place(&[1, 2], &[3, 5]), place(&[0, 4, 5], &[])];
    let fabric = FabricSpec::star(6, rate, queue(rate));
    (RunPlan { name: "fixed-mix".into(), fabric, jobs, ..RunPlan::default() }, places)
}

/// Every policy, `repeats` times, policy by policy within each repeat.
///
/// # Errors
/// As a run.
pub fn run_mix(
    bench: &Bench<'_>,
    (plan, places): &(RunPlan, Vec<Placement>),
    policies: &[Policy],
    repeats: usize,
) -> Result<Vec<PolicyRun>, RunError> {
    let mut runs = Vec::new();
    for repeat in 0..repeats {
        for policy in policies {
            let name = format!("{}-{repeat}", policy.to_string().replace([':', '@'], "-"));
            let mut run = bench.run(plan, &mut FixedQueue::new(places.clone()), policy, &name)?;
            run.repeat = repeat;
            runs.push(run);
        }
    }
    Ok(runs)
}
