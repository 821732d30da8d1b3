//! The sites as a topology in TE-CCL's terms, and what tenants want as a file of demands says it.

use sluice_formats::problem::Problems;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::{File, Kind, LinkEntry, NodeEntry, Topology};
use sluice_plan::plan::{Collective, Demands, Names, Tenant, Text, Version};
use sluice_planners::Request;
use sluice_planners::teccl::demand::Wanted;
use sluice_planners::teccl::{self, Volume};
use sluice_planners_wan::{Instance, Link, Refusal as Unusable};

use super::{Options, Refusal};

/// Bytes in a MB.
const MB: u64 = 1_000_000;

/// The chunk of an instance in MB: a part of the mean flow.
pub fn chunk(instance: &Instance, options: Options) -> f64 {
    let flows = instance.flows();
    flows.iter().map(|flow| flow.size).sum::<f64>() / flows.len() as f64 / options.chunks as f64
}

/// The sites with their links, by the same indices; the other way round, where time is to run backwards.
pub fn topology(instance: &Instance, is_reversed: bool) -> Result<Topology, Problems> {
    let node = |node: usize| NodeEntry {
        addresses: None,
        buffer: None,
        can: None,
        id: node.to_string().into(),
        kind: Kind::Site,
        port_addresses: None,
        weight: None,
    };
    let link = |link: &Link| {
        let (from, to) = if is_reversed { (link.to, link.from) } else { (link.from, link.to) };
        LinkEntry {
            capacity: format!("{}MB/s", link.capacity).into(),
            capacity_per_epoch: None,
            cost: None,
            count: None,
            duplex: None,
            from: from.to_string().into(),
            latency: None,
            to: to.to_string().into(),
        }
    };
    let file = File {
        boxes: None,
        groups: None,
        links: instance.links().iter().map(link).collect(),
        name: Some(instance.name().into()),
        nodes: (0..instance.nodes()).map(node).collect(),
        routing: None,
        version: Version,
    };
    Topology::build(file, instance.name())
}

/// What a collective wants, by its index: flows by their chunks' numbers and ends, or an all-gather among nodes.
pub enum Want {
    /// Sender, number of the chunk at its sender, receiver.
    Triples(Vec<(usize, u64, usize)>),
    /// All of everybody, so many chunks of each.
    AllGather(Vec<usize>),
}

/// The instance of TE-CCL in which every collective is a tenant.
pub fn put<'a>(
    topology: &'a Topology,
    wants: Vec<Want>,
    chunk: f64,
    options: Options,
) -> Result<teccl::Instance<'a>, Refusal> {
    let mut names = Names::default();
    let mut id = |node: usize| names.intern(&node.to_string());
    let tenant = |(number, want): (usize, Want)| {
        let name = Text::from(number.to_string().as_str());
        let (chunks, collective, participants, triples) = match want {
            Want::Triples(triples) => {
                let triples = triples.into_iter().map(|(from, number, to)| (id(from), number, id(to)));
                (None, None, None, Some(triples.collect()))
            }
            Want::AllGather(nodes) => {
                let nodes = nodes.into_iter().map(&mut id).collect();
                (Some(options.chunks), Some(Collective::AllGather), Some(nodes), None)
            }
        };
        Tenant { chunks, collective, name, participants, root: None, triples, weight: None }
    };
    let tenants = wants.into_iter().enumerate().map(tenant).collect();
    let file = "demands".to_owned();
    let wanted = Wanted { demands: Demands { version: Version, tenants }, names, file };
    // A mean that is no number has no digits either.
    let refused = || Unusable::BadSizes { what: format!("a chunk of {chunk} MB") };
    let bytes = &Rational::parse(&chunk.to_string()).map_err(|_| refused())? * &Rational::from(MB);
    let own = teccl::Options {
        epoch: options.epochs.length(),
        wanted: Some(wanted),
        ..teccl::Options::of(Volume::Chunk(bytes))
    };
    Ok(teccl::Instance::new(topology, &Request::of_all(Collective::Custom), &own, topology.name())?)
}
