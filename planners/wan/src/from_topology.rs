//! From a topology and a file of flows to an instance: nodes and links keep their indices, and every quantity becomes the
//! float nearest to it once, here.
//!
//! Links are kept apart, switches and memories may be passed and nothing more, latencies are not in the model. What the model
//! has no place for is refused with a pointer into the file that says it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use sluice_formats::json::{Decimal, Writer};
use sluice_formats::problem::{Problem, Problems, UNSUPPORTED_FIELD, hint};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::{Can, Topology};
use sluice_plan::plan::{Collective, Flow, Flows, Names, NodeId};
use sluice_planners::Request;
use sluice_planners::front::{Asked, Support};

use crate::instance::{self, Instance, Link, MAX_FLOWS};
use crate::refusal::{Fault, Refusal};

/// What plans of flows serve, and which keys of a topology this planner knows.
pub const SUPPORT: Support = Support {
    makes: "plans of flows",
    collectives: &[Collective::Custom, Collective::AllReduce],
    ignorable: &["buffer", "capacity_per_epoch", "groups"],
    relays: true,
    weights: false,
    self_loop: Some(UNSUPPORTED_FIELD),
    unlimited: Some("BadCapacity"),
    needs: |_| Can { store: true, copy: false, reduce: false },
    own_fault: "Solver",
};

/// Bytes in a MB.
const MB: u64 = 1_000_000;
/// Ids among which the nearest to an unknown one is looked for.
const MAX_NEAR: usize = 512;

/// A file of flows.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What stands in it.
    pub flows: Flows,
    /// The ids in it.
    pub names: Names,
    /// The file's name in messages.
    pub file: String,
}

/// What is to be planned: an instance, and what it was made of.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// The topology, and who takes part: the nodes that flows begin or end at, in file order.
    pub asked: Asked<'a>,
    /// The flows, by their ids.
    pub flows: Vec<Flow>,
    /// The ids in `flows`.
    pub names: Names,
    /// Sizes in MB, capacities in MB/s; flows, links and nodes by the same indices.
    pub instance: Instance,
    /// By flow those that it waits for besides the one before it in its group.
    pub more: Vec<Vec<usize>>,
    file: String,
    /// By id of a flow its place in the file.
    places: Vec<usize>,
}

impl<'a> Task<'a> {
    /// Reads what is asked; `file` is the topology's name in messages. The plan is one of an all-reduce if the flows of every
    /// collective are those of a ring and everybody in it can add up and copy, else of a collective of its own.
    ///
    /// # Errors
    /// `TooLarge`, `Empty`, `DuplicateId`, `GapInIds`, `BadRoute` and `UNSUPPORTED_FIELD` for ends of flows, with pointers into
    /// the file of flows; those of [`Asked::new`] with the codes of [`SUPPORT`], and `UNSUPPORTED_FIELD` without units, with
    /// pointers into the topology; then those of [`Instance::new`], and `NotAChain` where a flow does not wait for the one
    /// before it in its group, which no plan can say.
    pub fn new(topology: &'a Topology, wanted: &Wanted, ignore: &[String], file: &str) -> Result<Task<'a>, Problems> {
        let Wanted { flows: Flows { deps, flows, .. }, names, file: flows_file } = wanted;
        let in_flows =
            |key: String, refusal: &Refusal| Problems::from(Problem { key, ..refusal.problem() }).in_file(flows_file);
        if flows.len() > MAX_FLOWS {
            let refusal = Refusal::TooLarge { what: "flows", found: flows.len(), allowed: MAX_FLOWS };
            return Err(in_flows("/flows".into(), &refusal));
        }
        if flows.is_empty() {
            return Err(in_flows("/flows".into(), &Refusal::NoFlows));
        }
        let places = places(flows).map_err(|(refusal, place)| in_flows(format!("/flows/{place}/id"), &refusal))?;
        let ends = ends(topology, flows, names).map_err(|problems| problems.in_file(flows_file))?;
        let participants = participants(topology, &ends);
        let request = Request { collective: Collective::Custom, participants: Some(&participants), root: None, ignore };
        let asked = Asked::new(topology, &request, file, &SUPPORT)?;
        if topology.unit() == Unit::Abstract {
            let error = Problem::new(UNSUPPORTED_FIELD, "/links", "flows have bytes and take seconds");
            return Err(asked.in_file(error.found("capacities without units").allowed("capacities as in 1.25GB/s")));
        }
        let flow = |place: &usize| {
            let (flow, (from, to)) = (&flows[*place], ends[*place]);
            instance::Flow {
                collective: index(flow.collective),
                group: index(flow.group),
                order: index(flow.order),
                from,
                to,
                size: millions(flow.size.value()),
                path: flow.path.iter().map(|link| *link as usize).collect(),
                release: flow.release_s.as_ref().map_or(0.0, |release| nearest(&release.value())),
            }
        };
        let transfers = places.iter().map(flow).collect();
        let deps = deps.as_ref().map(|deps| deps.iter().map(|(a, b)| (index(*a), index(*b))).collect());
        let made = Instance::new(topology.name(), topology.nodes().len(), links(topology), transfers, deps);
        let mut task = Task {
            instance: made.map_err(|refusal| refused(&asked, flows_file, &places, &refusal))?,
            flows: places.iter().map(|place| flows[*place].clone()).collect(),
            asked,
            names: names.clone(),
            more: Vec::new(),
            file: flows_file.clone(),
            places,
        };
        task.more = more(&task.instance).map_err(|refusal| task.refused(&refusal))?;
        let can = |node: &usize| topology.nodes()[*node].can.reduce && topology.nodes()[*node].can.copy;
        if task.asked.participants.iter().all(can) && all_rings(&task.instance) {
            task.asked = task.asked.but(Collective::AllReduce);
        }
        Ok(task)
    }

    /// What is refused, with a pointer into the file that says it.
    pub fn refused(&self, refusal: &Refusal) -> Problems {
        refused(&self.asked, &self.file, &self.places, refusal)
    }
}

/// A number of the file as an index; one that does not fit is beyond every list.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The float nearest to a fraction; of one that is no decimal of 40 digits, one next to it.
pub(crate) fn nearest(value: &Rational) -> f64 {
    Writer::compact(&Decimal::from(value), None).parse().unwrap_or(f64::NAN)
}

/// Bytes in MB.
fn millions(bytes: &Rational) -> f64 {
    bytes.checked_div(&Rational::from(MB)).map_or(f64::NAN, |value| nearest(&value))
}

fn links(topology: &Topology) -> Vec<Link> {
    let link = |link: &sluice_formats::topology::Link| Link {
        from: link.from,
        to: link.to,
        // What has no limit was refused before.
        capacity: link.capacity.finite().map_or(f64::INFINITY, millions),
    };
    topology.links().iter().map(link).collect()
}

/// By id the place of a flow; or which id is there twice or beyond all others, and where.
fn places(flows: &[Flow]) -> Result<Vec<usize>, (Refusal, usize)> {
    let mut places = vec![usize::MAX; flows.len()];
    for (place, flow) in flows.iter().enumerate() {
        let id = index(flow.id);
        match places.get_mut(id) {
            Some(known) if *known == usize::MAX => *known = place,
            Some(_) => return Err((Refusal::DuplicateId { what: "flows", id }, place)),
            None => return Err((Refusal::GapInIds { what: "flow", id, count: flows.len() }, place)),
        }
    }
    Ok(places)
}

/// Topology indices of where flows begin and end, by place in the file.
fn ends(topology: &Topology, flows: &[Flow], names: &Names) -> Result<Vec<(usize, usize)>, Problems> {
    let mut known: HashMap<NodeId, usize> = HashMap::new();
    let mut node = |place: usize, key: &str, id: NodeId| {
        if let Some(node) = known.get(&id) {
            return Ok(*node);
        }
        let (at, text) = (format!("/flows/{place}/{key}"), names.text(id));
        let detail = |error: Problem| error.found(text).detail("flow", flows[place].id);
        let Some(node) = topology.node(text) else {
            let ids = topology.nodes().iter().take(MAX_NEAR).map(|node| &*node.id);
            let error = Problem::new("BadRoute", at, "no node has this id").allowed("an id of /nodes of the topology");
            return Err(Problems::from(detail(error).help(hint(text, ids).unwrap_or_default())));
        };
        if !topology.nodes()[node].is_compute() {
            let kind = topology.nodes()[node].kind.word();
            let error =
                Problem::new(UNSUPPORTED_FIELD, at, format!("a {kind} only passes on; no flow begins or ends there"));
            return Err(detail(error).allowed("a gpu, host or site").into());
        }
        known.insert(id, node);
        Ok(node)
    };
    let mut pairs = Vec::with_capacity(flows.len());
    for (place, flow) in flows.iter().enumerate() {
        pairs.push((node(place, "src", flow.src)?, node(place, "dst", flow.dst)?));
    }
    Ok(pairs)
}

/// Ids of the nodes that flows begin or end at, in file order.
fn participants(topology: &Topology, ends: &[(usize, usize)]) -> Vec<String> {
    let mut part = vec![false; topology.nodes().len()];
    for (from, to) in ends {
        (part[*from], part[*to]) = (true, true);
    }
    let nodes = topology.nodes().iter().zip(part).filter(|(_, part)| *part);
    nodes.map(|(node, _)| node.id.to_string()).collect()
}

/// By flow what it waits for besides the one before it in its group.
fn more(instance: &Instance) -> Result<Vec<Vec<usize>>, Refusal> {
    let mut more: Vec<Vec<usize>> =
        (0..instance.flows().len()).map(|flow| instance.predecessors(flow).to_vec()).collect();
    for group in instance.groups() {
        let not = |what| Refusal::NotAChain { collective: group.collective, group: group.local, what };
        if group.flows.iter().enumerate().any(|(place, &flow)| instance.flows()[flow].order != place) {
            return Err(not("the orders are not 0, 1, 2 …"));
        }
        for pair in group.flows.windows(2) {
            let &[before, after] = pair else { continue };
            match more[after].iter().position(|&other| other == before) {
                Some(place) => more[after].remove(place),
                None => return Err(not("a flow does not wait for the one before it")),
            };
        }
    }
    Ok(more)
}

/// Is every collective a ring all-reduce: n chunks, each of which goes 2(n − 1) hops round the same n nodes, one from each?
fn all_rings(instance: &Instance) -> bool {
    (0..instance.collectives()).all(|collective| is_ring(instance, collective))
}

fn is_ring(instance: &Instance, collective: usize) -> bool {
    let groups = &instance.groups()[instance.groups_of(collective)];
    let n = groups.len();
    if n < 2 || groups.iter().any(|group| group.flows.len() != 2 * (n - 1)) {
        return false;
    }
    // The first n hops of the first chunk begin at every node once: a ring of two is all its hops.
    let flow = |group: usize, hop: usize| &instance.flows()[groups[group].flows[hop]];
    let next: BTreeMap<usize, usize> = (0..n).map(|hop| (flow(0, hop).from, flow(0, hop).to)).collect();
    let mut starts: Vec<usize> = (0..n).map(|group| flow(group, 0).from).collect();
    starts.sort_unstable();
    starts.dedup();
    let goes_on = |group: usize| (1..2 * (n - 1)).all(|hop| flow(group, hop - 1).to == flow(group, hop).from);
    let round =
        |group: usize| (0..2 * (n - 1)).all(|hop| next.get(&flow(group, hop).from) == Some(&flow(group, hop).to));
    let one_ring = next.len() == n && {
        let mut at = flow(0, 0).from;
        let steps = (1..n).all(|_| {
            at = next.get(&at).copied().unwrap_or(usize::MAX);
            at != flow(0, 0).from
        });
        steps && next.get(&at) == Some(&flow(0, 0).from)
    };
    one_ring && starts.len() == n && (0..n).all(|group| goes_on(group) && round(group))
}

/// What is refused, in the words of the file that says it.
fn refused(asked: &Asked<'_>, flows_file: &str, places: &[usize], refusal: &Refusal) -> Problems {
    let place = |flow: usize, key: &str| match places.get(flow) {
        Some(place) => format!("/flows/{place}{key}"),
        None => "/flows".into(),
    };
    let entry = |link: usize, key: &str| match asked.topology.links().get(link) {
        Some(link) => format!("/links/{}{key}", link.entry),
        None => "/links".into(),
    };
    let (of_flows, key) = match *refusal {
        Refusal::BadSize { flow, .. } => (true, place(flow, "/size")),
        Refusal::BadRelease { flow, .. } => (true, place(flow, "/release_s")),
        Refusal::BadRoute { flow, fault: Fault::UnknownNode { .. } } => (true, place(flow, "/src")),
        Refusal::BadRoute { flow, .. } => (true, place(flow, "/path")),
        Refusal::SelfFlow { flow, .. } | Refusal::Cycle { flow } => (true, place(flow, "")),
        Refusal::BadCapacity { link, .. } => (false, entry(link, "/capacity")),
        Refusal::BadLink { link, .. } => (false, entry(link, "")),
        Refusal::GapInIds { what: "flow", .. } => (true, "/deps".into()),
        Refusal::Range { what: "capacities", .. } => (false, "/links".into()),
        Refusal::NoFlows
        | Refusal::EmptyCollective { .. }
        | Refusal::GapInIds { .. }
        | Refusal::NotAChain { .. }
        | Refusal::Range { .. }
        | Refusal::TooLarge { .. } => (true, "/flows".into()),
        _ => return Problems::from(refusal.problem()),
    };
    let problem = Problem { key, ..refusal.problem() };
    if of_flows { Problems::from(problem).in_file(flows_file) } else { asked.in_file(problem) }
}
