//! Which hosts a job gets, given the free GPUs (`simulation.md` section 4.5).

use crate::jobs::{Arch, Job};
use crate::network::{Network, NodeIx};
use crate::random::Stream;
use crate::settings::{PlacePolicy, Placement};

/// The hosts of a job's members, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    /// Host of each worker.
    pub workers: Vec<NodeIx>,
    /// Host of each parameter server.
    pub servers: Vec<NodeIx>,
}

impl Seats {
    /// GPUs each host gives to the job.
    pub(crate) fn gpus<'a>(&'a self, placement: &'a Placement) -> impl Iterator<Item = NodeIx> + 'a {
        let servers = if placement.server_gpu { self.servers.as_slice() } else { &[] };
        self.workers.iter().chain(servers).copied()
    }
}

/// Whether a job could run on the empty network.
pub(crate) struct Fits<'a> {
    network: &'a Network,
    placement: &'a Placement,
    all: Vec<u32>,
}

impl<'a> Fits<'a> {
    pub(crate) fn new(network: &'a Network, placement: &'a Placement) -> Fits<'a> {
        Fits { network, placement, all: network.hosts.iter().map(|h| h.gpus).collect() }
    }

    /// Why the job can never run, if it cannot.
    pub(crate) fn ever(&self, job: &Job) -> Result<(), String> {
        if job.pinned.is_none() && self.placement.policy == PlacePolicy::Explicit && job.arch != Arch::Flows {
            return Err("placement is explicit and the job names no hosts".into());
        }
        let mut lot = Stream::new(0, "fits");
        if place(self.network, self.placement, job, &self.all, &mut lot).is_some() {
            return Ok(());
        }
        let gpus: u64 = self.all.iter().map(|&g| u64::from(g)).sum();
        Err(format!(
            "{} workers and {} servers on {} hosts with {gpus} GPUs in all{}",
            job.workers,
            job.servers,
            self.all.len(),
            if self.placement.one_per_host { ", one member per host" } else { "" }
        ))
    }
}

/// Seats for a job on `free` GPUs per host, or `None` while it has to wait. Only `random` placement and shuffled ranks
/// draw from `lot`.
pub fn place(network: &Network, placement: &Placement, job: &Job, free: &[u32], lot: &mut Stream) -> Option<Seats> {
    if let Some(pinned) = &job.pinned {
        let seats = Seats { workers: pinned.workers.clone(), servers: pinned.servers.clone() };
        let mut left = free.to_vec();
        for host in seats.gpus(placement) {
            let gpus = left.get_mut(host.0)?;
            *gpus = gpus.checked_sub(1)?;
        }
        return Some(seats);
    }
    let mut seats = match placement.policy {
        PlacePolicy::Packed => packed(network, placement, job, free)?,
        PlacePolicy::Spread => spread(placement, job, free)?,
        PlacePolicy::Random => random(placement, job, free, lot)?,
        PlacePolicy::Explicit if job.workers == 0 => Seats::default(),
        PlacePolicy::Explicit => return None,
    };
    if placement.shuffled_ranks {
        for i in (1..seats.workers.len()).rev() {
            seats.workers.swap(i, lot.index(i + 1));
        }
    }
    Some(seats)
}

/// GPUs a host offers to one job.
fn usable(placement: &Placement, free: u32) -> u32 {
    if placement.one_per_host { free.min(1) } else { free }
}

fn gpus_needed(placement: &Placement, job: &Job) -> usize {
    (job.workers + if placement.server_gpu { job.servers } else { 0 }) as usize
}

fn spread(placement: &Placement, job: &Job, free: &[u32]) -> Option<Seats> {
    let mut left = free.to_vec();
    let mut member = vec![false; free.len()];
    let mut seat = |needs_gpu: bool| -> Option<NodeIx> {
        let fits = |i: usize, left: &[u32]| !needs_gpu || left.get(i).is_some_and(|&g| g > 0);
        let best = |unused: bool, left: &[u32], member: &[bool]| {
            (0..left.len())
                .filter(|&i| fits(i, left) && (!unused || member.get(i) == Some(&false)))
                .max_by_key(|&i| (left.get(i).copied(), std::cmp::Reverse(i)))
        };
        let found = best(true, &left, &member);
        let host = if placement.one_per_host { found } else { found.or_else(|| best(false, &left, &member)) }?;
        *member.get_mut(host)? = true;
        if needs_gpu {
            *left.get_mut(host)? -= 1;
        }
        Some(NodeIx(host))
    };
    let mut workers: Vec<NodeIx> = (0..job.workers).map(|_| seat(true)).collect::<Option<_>>()?;
    let mut servers: Vec<NodeIx> = (0..job.servers).map(|_| seat(placement.server_gpu)).collect::<Option<_>>()?;
    workers.sort_unstable();
    servers.sort_unstable();
    Some(Seats { workers, servers })
}

/// Free GPUs and hosts of a subtree, and its first host.
#[derive(Clone, Copy)]
struct Room {
    gpus: usize,
    hosts: usize,
    first: usize,
}

/// Hosts of the smallest subtree that is large enough: host, rack, edge, all.
fn packed(network: &Network, placement: &Placement, job: &Job, free: &[u32]) -> Option<Seats> {
    let need = gpus_needed(placement, job);
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
                room.gpus += usable(placement, gpus) as usize;
                room.hosts += 1;
            }
        }
        let fits = |r: &Room| r.hosts > 0 && r.gpus >= need && (!placement.one_per_host || r.hosts >= members);
        let best = groups.iter().enumerate().filter(|(_, r)| fits(r)).min_by_key(|(_, r)| (r.gpus, r.first));
        if let Some((group, _)) = best {
            return fill(placement, job, free, (0..free.len()).filter(|&i| tier(i) == group).collect());
        }
    }
    None
}

fn fill(placement: &Placement, job: &Job, free: &[u32], mut hosts: Vec<usize>) -> Option<Seats> {
    hosts.sort_by_key(|&i| (std::cmp::Reverse(free.get(i).copied()), i));
    let seats = hosts.iter().flat_map(|&i| {
        let n = free.get(i).map_or(0, |&g| usable(placement, g));
        (0..n).map(move |_| NodeIx(i))
    });
    let mut taken: Vec<NodeIx> = seats.take(gpus_needed(placement, job)).collect();
    taken.sort_unstable();
    let servers = taken.split_off((job.workers as usize).min(taken.len()));
    let mut seats = Seats { workers: taken, servers };
    if !placement.server_gpu {
        let order: Vec<NodeIx> = hosts.into_iter().map(NodeIx).collect();
        seats.servers = without_gpus(placement, job, &seats.workers, &order)?;
    }
    Some(seats)
}

/// Servers that need no GPU: hosts without a worker first, in the order given, then round and round where allowed.
fn without_gpus(placement: &Placement, job: &Job, workers: &[NodeIx], order: &[NodeIx]) -> Option<Vec<NodeIx>> {
    let (used, unused): (Vec<NodeIx>, Vec<NodeIx>) = order.iter().partition(|h| workers.contains(h));
    let wanted = job.servers as usize;
    if placement.one_per_host && unused.len() < wanted {
        return None;
    }
    let mut servers: Vec<NodeIx> = unused.into_iter().chain(used).cycle().take(wanted).collect();
    if servers.len() < wanted {
        return None;
    }
    servers.sort_unstable();
    Some(servers)
}

fn random(placement: &Placement, job: &Job, free: &[u32], lot: &mut Stream) -> Option<Seats> {
    let mut pool: Vec<NodeIx> =
        free.iter().enumerate().flat_map(|(i, &g)| (0..usable(placement, g)).map(move |_| NodeIx(i))).collect();
    let need = gpus_needed(placement, job);
    if pool.len() < need || placement.one_per_host && free.len() < (job.workers + job.servers) as usize {
        return None;
    }
    let mut taken: Vec<NodeIx> = (0..need).map(|_| pool.remove(lot.index(pool.len()))).collect();
    taken.sort_unstable();
    let servers = taken.split_off((job.workers as usize).min(taken.len()));
    let mut seats = Seats { workers: taken, servers };
    if !placement.server_gpu && job.servers > 0 {
        let mut order: Vec<NodeIx> = (0..free.len()).map(NodeIx).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, lot.index(i + 1));
        }
        seats.servers = without_gpus(placement, job, &seats.workers, &order)?;
    }
    Some(seats)
}
