//! Decides everything anew so many times, and nothing else: for a profiler that counts instructions.
//!
//! `decisions POLICY FLOWS JOBS PORTS COUNT`; the sizes are those of `benches/decision.rs`.

#[path = "../benches/hosts/mod.rs"]
mod hosts;

use hosts::{Size, host, now, step};
use sluice_schedule::host::PolicyName;
use sluice_schedule::{ClockTrust, Event};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [policy, numbers @ ..] = &words[..] else { return usage() };
    let policy = match &policy[..] {
        "srpt-p" => PolicyName::SrptP,
        "primal-dual" => PolicyName::PrimalDual,
        "fair" => PolicyName::Fair,
        _ => return usage(),
    };
    let numbers: Vec<u64> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
    let &[flows, jobs, ports, count] = &numbers[..] else { return usage() };
    let size = Size { flows: flows.max(1), jobs: jobs.max(1), ports: ports.max(1) };
    let mut host = host(policy, size);
    let mut actions = Vec::new();
    for tick in 0..count {
        // An event that says nothing new, but after which all is planned anew.
        host.handle(now(2), Event::Clock(ClockTrust::Trusted));
        std::hint::black_box(step(&mut host, size, tick, &mut actions));
    }
}

fn usage() {
    eprintln!("usage: decisions srpt-p|primal-dual|fair FLOWS JOBS PORTS COUNT");
}
