//! Which hosts a job gets, given the free GPUs (`simulation.md` section 4.5).

use crate::jobs::{Arch, Job, Placement};
use crate::network::{Network, NodeIx};
use crate::random::Stream;
use crate::settings::{PlacePolicy, PlacementRules};

impl Placement {
    /// GPUs each host gives to the job.
    pub(crate) fn gpus<'a>(&'a self, rules: &'a PlacementRules) -> impl Iterator<Item = NodeIx> + 'a {
        let servers = if rules.server_gpu { self.servers.as_slice() } else { &[] };
        self.workers.iter().chain(servers).copied()
    }
}

/// Whether a job could run on the empty network.
pub(crate) struct Fits<'a> {
    network: &'a Network,
    rules: &'a PlacementRules,
    all: Vec<u32>,
}

impl<'a> Fits<'a> {
    pub(crate) fn new(network: &'a Network, rules: &'a PlacementRules) -> Fits<'a> {
        Fits { network, rules, all: network.hosts.iter().map(|h| h.gpus).collect() }
    }

    /// Why the job can never run, if it cannot.
    pub(crate) fn ever(&self, job: &Job) -> Result<(), String> {
        if job.pinned.is_none() && self.rules.policy == PlacePolicy::Explicit && job.arch != Arch::Flows {
            return Err("placement is explicit and the job names no hosts".into());
        }
        let mut rng = Stream::new(0, "fits");
        if place(self.network, self.rules, job, &self.all, &mut rng).is_some() {
            return Ok(());
        }
        let gpus: u64 = self.all.iter().map(|&g| u64::from(g)).sum();
        Err(format!(
            "{} workers and {} servers on {} hosts with {gpus} GPUs in all{}",
            job.workers,
            job.servers,
            self.all.len(),
            if self.rules.one_per_host { ", one member per host" } else { "" }
        ))
    }
}

/// Hosts for a job on `free` GPUs per host, or `None` while it has to wait. Only `random` placement and shuffled ranks
/// draw from `rng`.
pub fn place(
    network: &Network,
    rules: &PlacementRules,
    job: &Job,
    free: &[u32],
    rng: &mut Stream,
) -> Option<Placement> {
    if let Some(pinned) = &job.pinned {
        let mut left = free.to_vec();
        for host in pinned.gpus(rules) {
            let gpus = left.get_mut(host.0)?;
            *gpus = gpus.checked_sub(1)?;
        }
        return Some(pinned.clone());
    }
    let mut placement = match rules.policy {
        PlacePolicy::Packed => packed(network, rules, job, free)?,
        PlacePolicy::Spread => spread(rules, job, free)?,
        PlacePolicy::Random => random(rules, job, free, rng)?,
        PlacePolicy::Explicit if job.workers == 0 => Placement::default(),
        PlacePolicy::Explicit => return None,
    };
    if rules.shuffled_ranks {
        shuffle(&mut placement.workers, rng);
    }
    Some(placement)
}

fn shuffle(list: &mut [NodeIx], rng: &mut Stream) {
    (1..list.len()).rev().for_each(|i| list.swap(i, rng.index(i + 1)));
}

/// Ranks by host, workers first.
fn ranked(mut hosts: Vec<NodeIx>, job: &Job) -> Placement {
    hosts.sort_unstable();
    let servers = hosts.split_off((job.workers as usize).min(hosts.len()));
    Placement { workers: hosts, servers }
}

/// GPUs a host offers to one job.
fn usable(rules: &PlacementRules, free: u32) -> u32 {
    if rules.one_per_host { free.min(1) } else { free }
}

fn gpus_needed(rules: &PlacementRules, job: &Job) -> usize {
    (job.workers + if rules.server_gpu { job.servers } else { 0 }) as usize
}

fn spread(rules: &PlacementRules, job: &Job, free: &[u32]) -> Option<Placement> {
    let mut left = free.to_vec();
    let mut member = vec![false; free.len()];
    let mut host_for = |needs_gpu: bool| -> Option<NodeIx> {
        let fits = |i: usize, left: &[u32]| !needs_gpu || left.get(i).is_some_and(|&g| g > 0);
        let best = |unused: bool, left: &[u32], member: &[bool]| {
            (0..left.len())
                .filter(|&i| fits(i, left) && (!unused || member.get(i) == Some(&false)))
                .max_by_key(|&i| (left.get(i).copied(), std::cmp::Reverse(i)))
        };
        let found = best(true, &left, &member);
        let host = if rules.one_per_host { found } else { found.or_else(|| best(false, &left, &member)) }?;
        *member.get_mut(host)? = true;
        if needs_gpu {
            *left.get_mut(host)? -= 1;
        }
        Some(NodeIx(host))
    };
    let mut workers: Vec<NodeIx> = (0..job.workers).map(|_| host_for(true)).collect::<Option<_>>()?;
    let mut servers: Vec<NodeIx> = (0..job.servers).map(|_| host_for(rules.server_gpu)).collect::<Option<_>>()?;
    workers.sort_unstable();
    servers.sort_unstable();
    Some(Placement { workers, servers })
}

/// Free GPUs and hosts of a subtree, and its first host.
#[derive(Clone, Copy)]
struct Room {
    gpus: usize,
    hosts: usize,
    first: usize,
}

/// Hosts of the smallest subtree that is large enough: host, rack, edge, all.
fn packed(network: &Network, rules: &PlacementRules, job: &Job, free: &[u32]) -> Option<Placement> {
    let need = gpus_needed(rules, job);
    let members = (job.workers + job.servers) as usize;
    let tiers: [&dyn Fn(usize) -> usize; 4] = [
        &|i| i,
        &|i| network.hosts.get(i).map_or(0, |h| h.rack),
        &|i| network.hosts.get(i).map_or(0, |h| h.edge),
        &|_| 0,
    ];
    let mut groups: Vec<Room> = Vec::new();
    for tier in tiers {
        groups.clear();
        for (i, &gpus) in free.iter().enumerate() {
            let group = tier(i);
            if groups.len() <= group {
                groups.resize(group + 1, Room { gpus: 0, hosts: 0, first: i });
            }
            if let Some(room) = groups.get_mut(group) {
                room.first = if room.hosts == 0 { i } else { room.first };
                room.gpus += usable(rules, gpus) as usize;
                room.hosts += 1;
            }
        }
        let fits = |r: &Room| r.hosts > 0 && r.gpus >= need && (!rules.one_per_host || r.hosts >= members);
        let best = groups.iter().enumerate().filter(|(_, r)| fits(r)).min_by_key(|(_, r)| (r.gpus, r.first));
        if let Some((group, _)) = best {
            return fill(rules, job, free, (0..free.len()).filter(|&i| tier(i) == group).collect());
        }
    }
    None
}

fn fill(rules: &PlacementRules, job: &Job, free: &[u32], mut hosts: Vec<usize>) -> Option<Placement> {
    hosts.sort_by_key(|&i| (std::cmp::Reverse(free.get(i).copied()), i));
    let gpus = hosts.iter().flat_map(|&i| {
        let n = free.get(i).map_or(0, |&g| usable(rules, g));
        (0..n).map(move |_| NodeIx(i))
    });
    let mut placement = ranked(gpus.take(gpus_needed(rules, job)).collect(), job);
    if !rules.server_gpu {
        let order: Vec<NodeIx> = hosts.into_iter().map(NodeIx).collect();
        placement.servers = without_gpus(rules, job, &placement.workers, &order)?;
    }
    Some(placement)
}

/// Servers that need no GPU: hosts without a worker first, in the order given, then round and round where allowed.
fn without_gpus(rules: &PlacementRules, job: &Job, workers: &[NodeIx], order: &[NodeIx]) -> Option<Vec<NodeIx>> {
    let (used, unused): (Vec<NodeIx>, Vec<NodeIx>) = order.iter().partition(|h| workers.contains(h));
    let wanted = job.servers as usize;
    if rules.one_per_host && unused.len() < wanted {
        return None;
    }
    let mut servers: Vec<NodeIx> = unused.into_iter().chain(used).cycle().take(wanted).collect();
    if servers.len() < wanted {
        return None;
    }
    servers.sort_unstable();
    Some(servers)
}

fn random(rules: &PlacementRules, job: &Job, free: &[u32], rng: &mut Stream) -> Option<Placement> {
    let mut pool: Vec<NodeIx> =
        free.iter().enumerate().flat_map(|(i, &g)| (0..usable(rules, g)).map(move |_| NodeIx(i))).collect();
    let need = gpus_needed(rules, job);
    if pool.len() < need || rules.one_per_host && free.len() < (job.workers + job.servers) as usize {
        return None;
    }
    let mut placement = ranked((0..need).map(|_| pool.remove(rng.index(pool.len()))).collect(), job);
    if !rules.server_gpu && job.servers > 0 {
        let mut order: Vec<NodeIx> = (0..free.len()).map(NodeIx).collect();
        shuffle(&mut order, rng);
        placement.servers = without_gpus(rules, job, &placement.workers, &order)?;
    }
    Some(placement)
}
