//! The form of ForestColl: compute nodes, switches, directed edges with a number each.

use std::collections::{BTreeMap, HashMap};

use super::{Exact, Problems, empty_file, link, node};
use crate::json::{Json, Limits, Read, Reader, Writer, form};
use crate::problem::{DUPLICATE_NODE, E_PARSE, MAX_PROBLEMS, NON_POSITIVE_BANDWIDTH, Problem, SELF_LOOP, UNKNOWN_NODE};
use crate::quantity::CapacityUnit;
use crate::topology::file::Weight;
use crate::topology::{CanEntry, Kind, MAX_LINKS, Text, Topology};

const LIMITS: Limits = Limits { bytes: super::MAX_BYTES, elements: 8_000_000, charged: (MAX_LINKS, "edges") };

form! {
    pub struct Form {
        pub compute: Vec<Text> = "compute",
        /// From, to and capacity of directed links.
        pub edges: Vec<Edge> = "edges",
        pub multicast: Option<Vec<Text>> = "multicast",
        /// Nodes that only forward.
        pub switches: Option<Vec<Text>> = "switches",
        /// Shares; with this key, a node it does not name weighs 0.
        pub weights: Option<BTreeMap<Text, Weight>> = "weights",
    }
}

/// One edge: `[from, to, capacity]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    from: Text,
    to: Text,
    capacity: Exact,
}

impl Json for Edge {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Edge>> {
        let (mut ends, mut capacity, mut length) = ((None, None), None, 0_u64);
        reader.charge()?;
        let ours = reader.list(&mut |reader| {
            length += 1;
            match length {
                1 => ends.0 = Text::read(reader)?,
                2 => ends.1 = Text::read(reader)?,
                3 => capacity = Exact::read(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        if ours && length != 3 {
            let error = Problem::new(E_PARSE, "", "not an edge").found(format!("{length} parts"));
            reader.refuse(error.allowed("[from, to, capacity]"));
            return Ok(None);
        }
        let ((Some(from), Some(to)), Some(capacity)) = (ends, capacity) else { return Ok(None) };
        Ok(Some(Edge { from, to, capacity }))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin('[');
        writer.item();
        self.from.write(writer);
        writer.item();
        self.to.write(writer);
        writer.item();
        self.capacity.write(writer);
        writer.end(']');
    }
}

/// Reads the form. Compute nodes become GPUs; without `unit` the topology is an abstract graph.
///
/// # Errors
/// All mistakes with pointers into the form: `E_…` of the text, then `DUPLICATE_NODE`, `UNKNOWN_NODE`, `SELF_LOOP`,
/// `NON_POSITIVE_BANDWIDTH`, `BAD_WEIGHTS`.
pub fn forestcoll(bytes: &[u8], file: &str, unit: Option<CapacityUnit>) -> Result<Topology, Problems> {
    let form = Reader::new(bytes, LIMITS, file)?.document(Form::read)?.0;
    let mut errors = Vec::new();
    let mut refuse = |error: Problem| {
        if errors.len() < MAX_PROBLEMS {
            errors.push(error);
        }
    };
    let mut places: HashMap<Text, usize> = HashMap::new();
    let mut made = empty_file();
    let switches = form.switches.unwrap_or_default();
    let lists = [("compute", &form.compute, Kind::Gpu), ("switches", &switches, Kind::Switch)];
    for (key, list, kind) in lists {
        for (i, id) in list.iter().enumerate() {
            if places.insert(id.clone(), made.nodes.len()).is_some() {
                refuse(Problem::new(DUPLICATE_NODE, format!("/{key}/{i}"), "a node is listed twice").found(&**id));
            }
            made.nodes.push(node(id.clone(), kind));
        }
    }
    let unknown = |key: String, id: &Text| Problem::new(UNKNOWN_NODE, key, "not a node of this graph").found(&**id);
    if let Some(weights) = form.weights {
        for entry in &mut made.nodes[..form.compute.len()] {
            entry.weight = Some(Weight(0));
        }
        for (id, weight) in weights {
            let entry =
                places.get(&id).filter(|place| **place < form.compute.len()).map(|place| &mut made.nodes[*place]);
            match entry {
                Some(entry) => entry.weight = Some(weight),
                None => refuse(unknown(format!("/weights/{}", crate::json::escaped(&id)), &id)),
            }
        }
    }
    for (i, id) in form.multicast.iter().flatten().enumerate() {
        let entry = places.get(id).filter(|place| **place >= form.compute.len()).map(|place| &mut made.nodes[*place]);
        let can = CanEntry { aggregate: None, copy: None, multicast: Some(true), reduce: None, store: None };
        match entry {
            Some(entry) => entry.can = Some(can),
            None => refuse(unknown(format!("/multicast/{i}"), id)),
        }
    }
    let word = unit.map_or("", CapacityUnit::word);
    for (i, edge) in form.edges.iter().enumerate() {
        let key = format!("/edges/{i}");
        for (part, id) in [&edge.from, &edge.to].into_iter().enumerate() {
            if !places.contains_key(id) {
                refuse(unknown(format!("{key}/{part}"), id));
            }
        }
        if edge.from == edge.to {
            refuse(Problem::new(SELF_LOOP, key.clone(), "an edge from a node to itself").found(&*edge.from));
        }
        match edge.capacity.value.as_ref().filter(|capacity| capacity.is_positive()) {
            Some(capacity) => {
                let capacity = Text::from(format!("{capacity}{word}"));
                made.links.push(link(edge.from.clone(), edge.to.clone(), capacity, false));
            }
            None => {
                let error = Problem::new(NON_POSITIVE_BANDWIDTH, format!("{key}/2"), "not a bandwidth");
                refuse(error.found(&*edge.capacity.written).allowed("a number or p/q above 0"));
            }
        }
    }
    match Problems::collect(errors, file) {
        Some(errors) => Err(errors),
        None => Topology::build(made, file),
    }
}
