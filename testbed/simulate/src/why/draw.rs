//! Cases: a job on a star of a few hosts, and one cause that makes its rounds longer, all drawn from a seed.

use std::path::Path;

use sluice_formats::problem::Problems;
use sluice_scenario::random::Stream;
use sluice_scenario::settings::CrossFlow;
use sluice_scenario::{LinkIx, NodeIx, Notation, Policy, Scenario};
use sluice_schedule::{Nanos, Rate};

/// What makes the rounds longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The job computes longer, on all hosts.
    Compute,
    /// One host computes longer than the others, sends slowly, or takes slowly.
    Peer,
    /// A link carries a third of what everybody believes.
    Link,
    /// Another job shares a link.
    Job,
    /// Traffic that nobody manages does.
    Unmanaged,
    /// A link loses packets.
    Loss,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [Kind::Compute, Kind::Peer, Kind::Link, Kind::Job, Kind::Unmanaged, Kind::Loss];

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Compute => "slow compute",
            Kind::Peer => "slow peer",
            Kind::Link => "link cut to a third",
            Kind::Job => "another job",
            Kind::Unmanaged => "unmanaged traffic",
            Kind::Loss => "loss",
        }
    }
}

/// What the engine does to one host's flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Injected {
    #[default]
    Nothing,
    /// Its round begins so much later.
    Computes { host: NodeIx, more: Nanos },
    /// It sends no faster, bytes per second.
    Sends { host: NodeIx, rate: f64 },
    /// It takes no faster.
    Takes { host: NodeIx, rate: f64 },
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// From which everything of it is drawn.
    pub seed: u64,
    /// What is injected.
    pub kind: Kind,
    /// Under which scheduler.
    pub policy: Policy,
    /// Without the cause.
    pub usual: Scenario,
    /// With it.
    pub disturbed: Scenario,
    pub(super) injected: Injected,
    /// The link that was cut or loses.
    pub(super) link: Option<LinkIx>,
    /// The host that is asked.
    pub host: NodeIx,
}

/// The job that is asked about, and the one beside it.
pub(super) const JOB: &str = "asked";
pub(super) const OTHER: &str = "other";
const GBPS: f64 = 10.0;

struct Drawn {
    hosts: usize,
    workers: Vec<usize>,
    servers: Vec<usize>,
    bytes: u64,
    compute: f64,
    tcp: &'static str,
}

fn names(hosts: &[usize]) -> String {
    hosts.iter().map(|host| format!("\"h{host}\"")).collect::<Vec<_>>().join(", ")
}

fn job(id: &str, drawn: &Drawn, iterations: u32, compute: f64, bytes: u64) -> String {
    let ps = !drawn.servers.is_empty();
    let servers = if ps { format!(", servers = [{}]", names(&drawn.servers)) } else { String::new() };
    format!(
        "[[jobs]]\nid = \"{id}\"\narch = \"{}\"\nbytes = {bytes}\ncompute_s = {compute:.4}\niterations = {iterations}\n\
         compute_jitter = 0.02\nplacement = {{ workers = [{}]{servers} }}\n",
        if ps { "ps" } else { "ring" },
        names(&drawn.workers),
    )
}

fn scenario(seed: u64, drawn: &Drawn, jobs: &str) -> Result<Scenario, Problems> {
    let text = format!(
        "version = 1\nname = \"why\"\nseed = {seed}\n[time]\nmode = \"event\"\n[network]\nkind = \"star\"\nhosts = {}\n\
         gpus = 8\ngbps = {GBPS}\n[placement]\npolicy = \"explicit\"\nserver_gpus = 0\n[scheduler]\nname = \"sluice\"\n[scheduler.fair]\n{}\n{jobs}",
        drawn.hosts, drawn.tcp
    );
    Scenario::parse(&text, Notation::Toml, "why.toml", Path::new("."))
}

impl Case {
    /// The case of a seed with this cause.
    ///
    /// # Errors
    /// A scenario that is none, by a fault of ours.
    pub fn draw(seed: u64, kind: Kind) -> Result<Case, Problems> {
        let mut random = Stream::new(seed, kind.as_str());
        let mut between = |low: f64, high: f64| low + (high - low) * random.uniform();
        let hosts = between(4.0, 8.0) as usize;
        let ps = between(0.0, 1.0) < 0.4;
        let workers = between(2.0, hosts as f64 - 1.0) as usize;
        let drawn = Drawn {
            hosts,
            workers: (0..workers).collect(),
            servers: if ps {
                (workers..hosts.min(workers + 1 + (between(0.0, 2.0) as usize))).collect()
            } else {
                Vec::new()
            },
            bytes: between(150e6, 600e6) as u64,
            compute: between(0.08, 0.5),
            tcp: if kind == Kind::Loss { "tcp = \"cubic\"\nqueue_us = 1000" } else { "" },
        };
        let policy = if between(0.0, 1.0) < 0.5 { "sluice" } else { "fair" };
        let asked = job(JOB, &drawn, 14, drawn.compute, drawn.bytes);
        let usual = scenario(seed, &drawn, &asked)?;
        let mut disturbed = usual.clone();
        let members: Vec<usize> = drawn.workers.iter().chain(&drawn.servers).copied().collect();
        let one = |at: f64| NodeIx(members[(at * members.len() as f64) as usize % members.len()]);
        let host = one(between(0.0, 1.0));
        let (mut injected, mut link) = (Injected::Nothing, None);
        match kind {
            Kind::Compute => {
                let slower = drawn.compute * between(1.5, 3.0);
                disturbed = scenario(seed, &drawn, &job(JOB, &drawn, 14, slower, drawn.bytes))?;
            }
            Kind::Peer => {
                // Servers do not compute, and one that is asked about itself knows better.
                let of = drawn.workers.iter().copied().find(|of| *of != host.0 && between(0.0, 1.0) < 0.6);
                let slow = NodeIx(of.unwrap_or(if host.0 == 0 { 1 } else { 0 }));
                let rate = GBPS / 8.0 * 1e9 * between(0.1, 0.35);
                injected = match between(0.0, 3.0) as usize {
                    0 => Injected::Computes { host: slow, more: Nanos((between(0.15, 0.6) * 1e9) as u64) },
                    1 => Injected::Sends { host: slow, rate },
                    _ => Injected::Takes { host: slow, rate },
                };
            }
            Kind::Link | Kind::Loss => {
                let node = one(between(0.0, 1.0));
                let out = disturbed.network.out(node).first().copied().unwrap_or(LinkIx(0));
                let at = if between(0.0, 1.0) < 0.5 { out } else { LinkIx(out.0 ^ 1) };
                link = Some(at);
                if let Some(link) = disturbed.network.links.get_mut(at.0) {
                    if kind == Kind::Link {
                        link.rate = Rate(link.rate.0 / 3);
                    } else if policy == "fair" {
                        link.loss = between(0.002, 0.02);
                    } else {
                        link.loss = between(0.1, 0.3);
                    }
                }
            }
            Kind::Job => {
                let at = one(between(0.0, 1.0)).0;
                let mut beside = (at + 1 + between(0.0, hosts as f64 - 1.0) as usize) % hosts;
                if beside == at {
                    beside = (at + 1) % hosts;
                }
                let other = Drawn { workers: vec![at, beside], servers: Vec::new(), ..drawn };
                let bytes = (drawn.bytes as f64 * between(1.0, 3.0)) as u64;
                let jobs = format!("{asked}{}", job(OTHER, &other, 60, between(0.01, 0.08), bytes));
                disturbed = scenario(seed, &other, &jobs)?;
            }
            Kind::Unmanaged => {
                let dst = one(between(0.0, 1.0));
                let src = NodeIx((dst.0 + 1 + between(0.0, hosts as f64 - 1.0) as usize) % hosts);
                let src = if src == dst { NodeIx((dst.0 + 1) % hosts) } else { src };
                let rate = Some(Rate((GBPS * 1e9 * between(0.5, 0.85)) as u64));
                disturbed.cross_flows.push(CrossFlow { src, dst, start: Nanos(1), end: Nanos(u64::MAX / 4), rate });
            }
        }
        let policy = Policy { name: policy.into(), variant: None };
        Ok(Case { seed, kind, policy, usual, disturbed, injected, link, host })
    }
}

impl Case {
    /// What is injected, and where, for people.
    pub fn cause(&self) -> String {
        let name = |node: NodeIx| self.usual.network.name(node).to_owned();
        let link = self.link.and_then(|link| self.usual.network.link(link));
        match (self.injected, link) {
            (Injected::Computes { host, more }, _) => format!("{} computes {more} more", name(host)),
            (Injected::Sends { host, rate }, _) => format!("{} sends at {:.1} Gbit/s", name(host), rate * 8e-9),
            (Injected::Takes { host, rate }, _) => format!("{} takes at {:.1} Gbit/s", name(host), rate * 8e-9),
            (Injected::Nothing, Some(link)) => format!("the link from {} to {}", name(link.from), name(link.to)),
            (Injected::Nothing, None) => {
                let cross =
                    self.disturbed.cross_flows.iter().map(|flow| format!("{} to {}", name(flow.src), name(flow.dst)));
                let jobs = self.disturbed.jobs.iter().map(|job| {
                    let hosts = job.pinned.iter().flat_map(|of| of.workers.iter().chain(&of.servers));
                    format!("{} on {}", job.id, hosts.map(|host| name(*host)).collect::<Vec<_>>().join(","))
                });
                jobs.chain(cross).collect::<Vec<_>>().join("; ")
            }
        }
    }
}
