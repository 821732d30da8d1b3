//! Schedules of sends, recomputed plainly: every send against every other, sums as lists of the ranks in them, floats
//! where the checker has fractions.

mod replay;

use std::collections::BTreeSet;

use sluice_formats::quantity::{Capacity, Rational};
use sluice_formats::topology::{Kind, Topology};
use sluice_plan::plan::{Collective, Content, Decimal, Model, NodeId, Plan, Sends};

/// Tenant, source, number.
type Key = (String, usize, u64);

/// What a link does with a chunk.
struct Lane {
    alpha: f64,
    delta: u64,
    kappa: u64,
    /// Chunks per epoch; the last repeats.
    rates: Vec<f64>,
}

struct Sent {
    key: Key,
    from: usize,
    to: usize,
    /// One link, or the two of a hyper-edge.
    links: Vec<usize>,
    epoch: u64,
    usable: u64,
    kappa: u64,
    reduces: bool,
    lo: u64,
    hi: u64,
}

struct Plain<'a> {
    plan: &'a Plan,
    content: &'a Sends,
    topology: Topology,
    participants: Vec<usize>,
    lanes: Vec<Lane>,
    wanted: BTreeSet<(Key, usize)>,
    divisible: bool,
}

/// In how many epochs everybody has what it is owed; `None` for a schedule that is wrong.
pub fn finish(plan: &Plan) -> Option<u64> {
    Plain::new(plan)?.finish()
}

/// By send, after how many epochs its receiver can use it.
pub fn usable_after(plan: &Plan) -> Option<Vec<u64>> {
    let sent = Plain::new(plan)?.sent()?;
    Some(sent.iter().map(|send| send.usable - send.epoch).collect())
}

fn ceil(value: f64) -> u64 {
    (value - 1e-9).ceil().max(0.0) as u64
}

impl Plain<'_> {
    fn new(plan: &Plan) -> Option<Plain<'_>> {
        let Content::Sends(content) = &plan.body.content else { return None };
        let topology = Topology::build((**plan.body.topology.inline.as_ref()?).clone(), "").ok()?;
        let participants = match &plan.body.participants {
            Some(list) => list.iter().map(|node| topology.node(plan.id(*node))).collect::<Option<_>>()?,
            None => topology.compute(),
        };
        let divisible = content.model.divisible == Some(true);
        let (lanes, wanted) = (Vec::new(), BTreeSet::new());
        let mut plain = Plain { plan, content, topology, participants, lanes, wanted, divisible };
        plain.lanes = plain.lanes()?;
        plain.wanted = plain.wanted()?;
        Some(plain)
    }
    fn ignores(&self, key: &str) -> bool {
        self.plan.body.ignored.iter().flatten().any(|ignored| &**ignored == key)
    }
    fn node(&self, node: NodeId) -> Option<usize> {
        self.topology.node(self.plan.id(node))
    }
    fn is_switch(&self, node: usize) -> bool {
        matches!(self.topology.nodes()[node].kind, Kind::Switch | Kind::Nic)
    }
    fn collective(&self) -> Collective {
        self.plan.body.collective
    }
    /// Does anything have to be added up?
    fn adds(&self) -> bool {
        matches!(self.collective(), Collective::ReduceScatter | Collective::Reduce | Collective::AllReduce)
    }

    fn lanes(&self) -> Option<Vec<Lane>> {
        let model: &Model = &self.content.model;
        let (tau, chunk) = (model.tau.value().to_f64(), model.chunk.value().to_f64());
        let theta = model.theta.as_ref().map_or(0.0, Rational::to_f64);
        if tau <= 0.0 || chunk <= 0.0 || theta < 0.0 || (self.divisible && chunk.fract() != 0.0) {
            return None;
        }
        let links = self.topology.links();
        let mut slow = vec![(0.0, 1.0); links.len()];
        let mut named = BTreeSet::new();
        for straggler in model.stragglers.iter().flatten() {
            let add = straggler.alpha_add.as_ref().map_or(0.0, |add| Decimal::value(add).to_f64());
            let times = straggler.beta_mul.as_ref().map_or(1.0, |times| Decimal::value(times).to_f64());
            let hit: Vec<usize> = match (straggler.link, straggler.node) {
                (Some(link), None) if (link as usize) < links.len() => vec![link as usize],
                (None, Some(node)) => {
                    let node = self.node(node)?;
                    (0..links.len()).filter(|link| links[*link].from == node || links[*link].to == node).collect()
                }
                _ => return None,
            };
            if add < 0.0 || times <= 0.0 || !named.insert((straggler.link, straggler.node.map(|node| node.0))) {
                return None;
            }
            for link in hit {
                slow[link] = (slow[link].0 + add, slow[link].1 * times);
            }
        }
        let mut lanes = Vec::new();
        let mut pairs = BTreeSet::new();
        for (link, (add, times)) in links.iter().zip(slow) {
            let chunks = |capacity: &Capacity| Some(capacity.finite()?.to_f64() * tau / chunk / times);
            let nominal = chunks(&link.capacity)?;
            if nominal <= 0.0 || link.from == link.to || !pairs.insert((link.from, link.to)) {
                return None;
            }
            let kappa = ceil(1.0 / nominal).max(1);
            let rates = match &link.per_epoch {
                Some(list) if !self.ignores("capacity_per_epoch") => {
                    if (kappa > 1 && !self.divisible) || self.adds() {
                        return None;
                    }
                    list.iter().map(chunks).collect::<Option<_>>()?
                }
                _ => vec![nominal],
            };
            let alpha = link.latency.to_f64() + add;
            let delta = if alpha / tau <= theta + 1e-12 { 0 } else { ceil(alpha / tau) };
            lanes.push(Lane { alpha, delta, kappa: if self.divisible { 1 } else { kappa }, rates });
        }
        Some(lanes)
    }

    /// Who wants which chunk; of what is added up, who has something to add to it.
    fn wanted(&self) -> Option<BTreeSet<(Key, usize)>> {
        let mut wanted = BTreeSet::new();
        let distinct: BTreeSet<usize> = self.participants.iter().copied().collect();
        let root = self.plan.body.root.map(|root| self.node(root));
        if distinct.len() < self.participants.len() || distinct.len() < 2 || !self.topology.groups().is_empty() {
            return None;
        }
        let rooted = self.collective().is_rooted();
        if root.is_some() != rooted || root.is_some_and(|root| root.is_none_or(|root| !distinct.contains(&root))) {
            return None;
        }
        let model = &self.content.model;
        match &self.plan.body.demands {
            None => {
                let like = match self.collective() {
                    Collective::Custom => return None,
                    Collective::ReduceScatter | Collective::AllReduce => Collective::AllGather,
                    Collective::Reduce => Collective::Broadcast,
                    other => other,
                };
                pairs(&mut wanted, "", like, &self.participants, root.flatten(), model.chunks)?;
            }
            Some(_) if self.collective() != Collective::Custom => return None,
            Some(demands) => {
                let names: BTreeSet<&str> = demands.tenants.iter().map(|tenant| &*tenant.name).collect();
                if names.len() < demands.tenants.len() {
                    return None;
                }
                for tenant in &demands.tenants {
                    match (&tenant.triples, tenant.collective) {
                        (Some(triples), None) => {
                            for (source, chunk, target) in triples {
                                let (source, target) = (self.node(*source)?, self.node(*target)?);
                                let key = (tenant.name.to_string(), source, *chunk);
                                if source == target || !wanted.insert((key, target)) {
                                    return None;
                                }
                            }
                        }
                        (None, Some(collective)) => {
                            let listed = tenant.participants.as_ref();
                            let listed = listed.map(|list| list.iter().map(|node| self.node(*node)).collect());
                            let group: Vec<usize> = listed.unwrap_or(Some(self.participants.clone()))?;
                            let root = tenant.root.map(|root| self.node(root));
                            let inside = root.is_none_or(|root| root.is_some_and(|root| group.contains(&root)));
                            if root.is_some() != collective.is_rooted() || !inside {
                                return None;
                            }
                            let chunks = tenant.chunks.unwrap_or(model.chunks);
                            pairs(&mut wanted, &tenant.name, collective, &group, root.flatten(), chunks)?;
                        }
                        _ => return None,
                    }
                }
            }
        }
        let nodes = self.topology.nodes();
        let ends = |(key, target): &(Key, usize)| nodes[key.1].is_compute() && nodes[*target].is_compute();
        let keys: BTreeSet<&Key> = wanted.iter().map(|(key, _)| key).collect();
        let shared = keys.len() < wanted.len();
        let limited = nodes.iter().any(|node| node.buffer.is_some()) && !self.ignores("buffer");
        let odd = wanted.is_empty()
            || !wanted.iter().all(ends)
            || self.divisible && (shared || self.adds())
            || self.adds() && limited;
        (!odd).then_some(wanted)
    }

    fn sent(&self) -> Option<Vec<Sent>> {
        let model = &self.content.model;
        let links = self.topology.links();
        let find = |from, to| links.iter().position(|link| (link.from, link.to) == (from, to));
        let hyper = model.hyper_edges == Some(true);
        if hyper && links.iter().any(|link| self.is_switch(link.from) && self.is_switch(link.to)) {
            return None;
        }
        let tenants: Vec<&str> =
            self.plan.body.demands.iter().flat_map(|all| &all.tenants).map(|tenant| &*tenant.name).collect();
        let mut all = Vec::new();
        for send in &self.content.sends {
            let entry = &*send.entry;
            let (from, to, source) = (self.node(entry.from)?, self.node(entry.to)?, self.node(entry.src)?);
            let tenant = match (entry.tenant.as_deref(), &tenants[..]) {
                (None, []) => "",
                (None, [only]) => only,
                (Some(name), known) if known.contains(&name) => name,
                _ => return None,
            };
            let key = (tenant.to_string(), source, entry.chunk);
            if entry.epoch > 1 << 40 || !self.wanted.iter().any(|(wanted, _)| *wanted == key) {
                return None;
            }
            let (mut on, mut after, mut kappa) = (Vec::new(), 0, 0);
            match entry.via {
                None => {
                    let link = find(from, to)?;
                    if hyper && (self.is_switch(from) || self.is_switch(to)) {
                        return None;
                    }
                    let free = model.free_second_hop == Some(true) && self.is_switch(from) && !self.is_switch(to);
                    kappa = self.lanes[link].kappa;
                    after += self.lanes[link].delta + if free { 0 } else { kappa };
                    on.push(link);
                }
                Some(via) => {
                    let via = self.node(via)?;
                    if !hyper || !self.is_switch(via) || find(from, to).is_some() || from == to {
                        return None;
                    }
                    on.extend([find(from, via)?, find(via, to)?]);
                    let tau = model.tau.value().to_f64();
                    let alpha: f64 = on.iter().map(|link| self.lanes[*link].alpha).sum();
                    let theta = model.theta.as_ref().map_or(0.0, Rational::to_f64);
                    on.iter().for_each(|link| kappa = kappa.max(self.lanes[*link].kappa));
                    after += kappa + if alpha / tau <= theta + 1e-12 { 0 } else { ceil(alpha / tau) };
                }
            }
            let (lo, hi) = match (self.divisible, entry.offset, entry.bytes) {
                (false, None, None) => (0, 1),
                (true, Some(offset), Some(bytes)) if bytes > 0 => (offset, offset.checked_add(bytes)?),
                _ => return None,
            };
            if self.divisible && hi as f64 > model.chunk.value().to_f64() {
                return None;
            }
            let reduces = entry.reduces();
            let only_adds = self.adds() && self.collective() != Collective::AllReduce;
            if reduces && (!self.adds() || from == source) || !reduces && only_adds {
                return None;
            }
            let usable = entry.epoch + after;
            all.push(Sent { key, from, to, links: on, epoch: entry.epoch, usable, kappa, reduces, lo, hi });
        }
        Some(all)
    }

    fn finish(&self) -> Option<u64> {
        let all = self.sent()?;
        let twice = |i: usize, a: &Sent| {
            all[..i].iter().any(|b| (&a.key, &a.links, a.epoch, a.lo) == (&b.key, &b.links, b.epoch, b.lo))
        };
        if all.iter().enumerate().any(|(i, send)| twice(i, send)) || !self.has_room(&all) || !self.has_buffers(&all) {
            return None;
        }
        let keys: BTreeSet<&Key> = self.wanted.iter().map(|(key, _)| key).collect();
        let mut finish = 0;
        for key in keys {
            let whole = if self.divisible { self.content.model.chunk.value().to_u64()? } else { 1 };
            let of: Vec<&Sent> = all.iter().filter(|send| send.key == *key).collect();
            let mut begins = Some(0);
            if self.adds() {
                begins = Some(self.sum(key, &of)?);
                finish = finish.max(begins?);
            }
            let copies: Vec<&Sent> = of.into_iter().filter(|send| !send.reduces).collect();
            if self.adds() && self.collective() != Collective::AllReduce {
                continue;
            }
            let mut cuts: BTreeSet<u64> = copies.iter().flat_map(|send| [send.lo, send.hi]).collect();
            cuts.extend([0, whole]);
            let cuts: Vec<u64> = cuts.into_iter().collect();
            for part in cuts.windows(2) {
                let here: Vec<&Sent> =
                    copies.iter().copied().filter(|send| send.lo <= part[0] && part[1] <= send.hi).collect();
                finish = finish.max(self.copied(key, &here, begins?)?);
            }
        }
        Some(finish)
    }
}

/// What a plain collective asks for.
fn pairs(
    wanted: &mut BTreeSet<(Key, usize)>,
    tenant: &str,
    collective: Collective,
    group: &[usize],
    root: Option<usize>,
    chunks: u64,
) -> Option<()> {
    let distinct: BTreeSet<&usize> = group.iter().collect();
    if chunks == 0 || chunks > 1000 || distinct.len() < group.len() || group.len() < 2 {
        return None;
    }
    for source in group {
        for (rank, target) in (0..).zip(group).filter(|(_, target)| *target != source) {
            let (from_root, to_root) = (root == Some(*source), root == Some(*target));
            let numbers = match collective {
                Collective::AllGather => 0..chunks,
                Collective::AllToAll => rank * chunks..(rank + 1) * chunks,
                Collective::Broadcast if from_root => 0..chunks,
                Collective::Scatter if from_root => rank * chunks..(rank + 1) * chunks,
                Collective::Gather if to_root => 0..chunks,
                Collective::Broadcast | Collective::Scatter | Collective::Gather => continue,
                _ => return None,
            };
            wanted.extend(numbers.map(|number| ((tenant.to_string(), *source, number), *target)));
        }
    }
    Some(())
}
