//! The form of fluid programs: vertices with what they can do, directed edges, limits on sets of edges, and who has data
//! for whom.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Exact, Problems, Share, empty_file, link, node};
use crate::json::{Json, Limits, Read, Reader, Writer, form};
use crate::problem::{BAD_COST, E_MISSING, EMPTY_GROUP, MAX_PROBLEMS, Problem, REPEATED_EDGE, UNKNOWN_EDGE};
use crate::quantity::{CapacityUnit, Rational};
use crate::topology::{CanEntry, GroupEntry, Kind, LinkEntry, MAX_LINKS, MemberEntry, NodeEntry, Text, Topology};

const LIMITS: Limits = Limits { bytes: super::MAX_BYTES, elements: 12_000_000, charged: (MAX_LINKS, "edges") };

form! {
    pub struct Form {
        /// What each edge costs; none: 1 each.
        pub cost: Option<Vec<Exact>> = "cost",
        /// Ids of who ends with the data.
        pub destinations: Option<Vec<Text>> = "destinations",
        pub edges: Vec<Edge> = "edges",
        /// An edge in none of them is unlimited.
        pub groups: Option<Vec<Limit>> = "groups",
        /// Ids of who has the data.
        pub origins: Option<Vec<Text>> = "origins",
        pub vertices: Vec<Vertex> = "vertices",
    }
}

form! {
    pub struct Vertex {
        pub copy: bool = "copy",
        pub id: Text = "id",
        /// A label; the three abilities decide.
        pub kind: Option<Text> = "kind",
        pub reduce: bool = "reduce",
        pub store: bool = "store",
    }
}

form! {
    pub struct Limit {
        /// Data per time, all of its edges together.
        pub bw: Exact = "bw",
        /// Places in the list of edges.
        pub edges: Vec<u64> = "edges",
    }
}

/// One edge: `[from, to]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    from: Text,
    to: Text,
}

impl Json for Edge {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Edge>> {
        reader.charge()?;
        Ok(Json::read(reader)?.map(|(from, to)| Edge { from, to }))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        (self.from.clone(), self.to.clone()).write(writer);
    }
}

/// Who has data and who ends with it, for which a topology has no place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Indices of the nodes that have data, in the order of the form; `None`: all that take part.
    pub origins: Option<Vec<usize>>,
    /// Indices of the nodes that end with it, in the order of the form; `None`: all that take part.
    pub destinations: Option<Vec<usize>>,
}

impl Ends {
    /// Has everybody data who takes part in this topology, and does everybody end with it?
    pub fn are_all_of(&self, topology: &Topology) -> bool {
        let all = topology.compute();
        [&self.origins, &self.destinations].into_iter().flatten().all(|list| {
            let mut list = list.clone();
            list.sort_unstable();
            list == all
        })
    }
}

/// Reads the form. Without `unit` the topology is an abstract graph.
///
/// The nodes that take part are the origins and the destinations, whatever their labels are; where one of the two lists
/// is missing, nodes labelled gpu, host or site take part as well. A label that is no kind of node, or not of a node
/// that takes part or does not, becomes `gpu` for who takes part, `memory` for others that store and `switch` for the
/// rest. What a node can do is always written out. The limit of a single edge becomes its capacity, the smallest where
/// there are several; limits of several edges become groups, called by their place in the form.
///
/// # Errors
/// All mistakes with pointers into the form: `E_…` of the text, `UnknownEdge`, `EmptyGroup`, `RepeatedEdge`, `BadCost`,
/// `DuplicateVertex`, `UnknownVertex`, `SelfLoop`, `BadBandwidth`; after those, the
/// mistakes of a topology file, such as an id that is too long.
pub fn fluid(bytes: &[u8], file: &str, unit: Option<CapacityUnit>) -> Result<(Topology, Ends), Problems> {
    let form = Reader::new(bytes, LIMITS, file)?.document(Form::read)?.0;
    let mut checks = Checks::default();
    checks.vertices(&form.vertices);
    checks.edges(&form.edges);
    checks.costs(form.cost.as_deref(), form.edges.len());
    checks.limits(form.groups.as_deref().unwrap_or_default(), form.edges.len());
    let origins = form.origins.as_deref().map(|list| checks.ends("origins", list));
    let destinations = form.destinations.as_deref().map(|list| checks.ends("destinations", list));
    if let Some(errors) = Problems::collect(checks.errors, file) {
        return Err(errors);
    }
    let ends = Ends { origins, destinations };
    let mut made = empty_file();
    made.nodes = nodes(&form.vertices, &ends);
    let mut capacities = Capacities { word: unit.map_or("", CapacityUnit::word), share: Share::default() };
    made.links = links(&form, &mut capacities);
    made.groups = Some(groups(&form, &mut capacities)).filter(|groups| !groups.is_empty());
    Ok((Topology::build(made, file)?, ends))
}

/// Everything that can be wrong with a form that reads well.
#[derive(Default)]
struct Checks<'a> {
    errors: Vec<Problem>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Checks<'a> {
    fn refuse(&mut self, error: Problem) {
        if self.errors.len() < MAX_PROBLEMS {
            self.errors.push(error);
        }
    }

    fn vertices(&mut self, vertices: &'a [Vertex]) {
        for (i, vertex) in vertices.iter().enumerate() {
            let first = *self.places.entry(&vertex.id).or_insert(i);
            if first != i {
                let error = Problem::new("DuplicateVertex", format!("/vertices/{i}/id"), "two vertices have this id");
                let error = error.found(&*vertex.id).allowed("every id once");
                self.refuse(error.help(format!("the other is /vertices/{first}")));
            }
        }
    }

    fn place(&mut self, key: impl FnOnce() -> String, id: &str) -> Option<usize> {
        let place = self.places.get(id).copied();
        if place.is_none() {
            let error = Problem::new("UnknownVertex", key(), "no vertex has this id").found(id);
            self.refuse(error.allowed("an id of /vertices"));
        }
        place
    }

    fn edges(&mut self, edges: &[Edge]) {
        for (i, edge) in edges.iter().enumerate() {
            let from = self.place(|| format!("/edges/{i}/0"), &edge.from);
            let to = self.place(|| format!("/edges/{i}/1"), &edge.to);
            if from.is_some() && from == to {
                let error = Problem::new("SelfLoop", format!("/edges/{i}"), "an edge from a vertex to itself");
                let error = error.found(&*edge.from).allowed("two different vertices");
                self.refuse(error.help("leave it out: what a vertex stores needs no edge"));
            }
        }
    }

    fn costs(&mut self, costs: Option<&[Exact]>, edges: usize) {
        let Some(costs) = costs else { return };
        for (i, cost) in costs.iter().enumerate() {
            if i >= edges {
                let error = Problem::new(UNKNOWN_EDGE, format!("/cost/{i}"), "more costs than edges");
                self.refuse(error.found(format!("{} costs", costs.len())).allowed(format!("{edges}, one per edge")));
                break;
            }
            if cost.value.as_ref().is_none_or(Rational::is_negative) {
                let error = Problem::new(BAD_COST, format!("/cost/{i}"), "not a cost").found(&*cost.written);
                self.refuse(error.allowed("a number, or p/q as text, 0 or more"));
            }
        }
        if costs.len() < edges {
            let error = Problem::new(E_MISSING, format!("/cost/{}", costs.len()), "fewer costs than edges");
            let error = error.found(format!("{} costs", costs.len())).allowed(format!("{edges}, one per edge"));
            self.refuse(error.help("without `cost` every edge costs 1"));
        }
    }

    fn limits(&mut self, limits: &[Limit], edges: usize) {
        for (g, limit) in limits.iter().enumerate() {
            if !limit.bw.value.as_ref().is_some_and(Rational::is_positive) {
                let error = Problem::new("BadBandwidth", format!("/groups/{g}/bw"), "not a bandwidth");
                let error = error.found(&*limit.bw.written).allowed("a number, or p/q as text, above 0");
                self.refuse(error.help("leave a group without limit out"));
            }
            if limit.edges.is_empty() {
                let error = Problem::new(EMPTY_GROUP, format!("/groups/{g}/edges"), "a group without edges");
                self.refuse(error.found("[]").allowed("at least one edge"));
            }
            let mut seen = HashSet::new();
            for (j, edge) in limit.edges.iter().enumerate() {
                let key = || format!("/groups/{g}/edges/{j}");
                if usize::try_from(*edge).ok().is_none_or(|edge| edge >= edges) {
                    let error = Problem::new(UNKNOWN_EDGE, key(), "no edge has this place").found(edge.to_string());
                    self.refuse(error.allowed(format!("a number below {edges}, the number of edges")));
                } else if !seen.insert(edge) {
                    let error = Problem::new(REPEATED_EDGE, key(), "an edge twice in one group");
                    self.refuse(error.found(edge.to_string()).allowed("every edge once"));
                }
            }
        }
    }

    /// Indices of the vertices of a list.
    fn ends(&mut self, list: &str, ids: &[Text]) -> Vec<usize> {
        let (mut places, mut seen) = (Vec::new(), HashSet::new());
        for (i, id) in ids.iter().enumerate() {
            let Some(place) = self.place(|| format!("/{list}/{i}"), id) else { continue };
            if !seen.insert(place) {
                let error = Problem::new("DuplicateVertex", format!("/{list}/{i}"), "a vertex is listed twice");
                self.refuse(error.found(&**id).allowed("every id once"));
            }
            places.push(place);
        }
        places
    }
}

fn nodes(vertices: &[Vertex], ends: &Ends) -> Vec<NodeEntry> {
    let labels = vertices.iter().map(|vertex| {
        let label = vertex.kind.as_deref().unwrap_or_default().to_ascii_lowercase();
        Kind::parse(&label)
    });
    let mut kinds: Vec<(Option<Kind>, bool)> = labels.map(|label| (label, false)).collect();
    if ends.origins.is_none() || ends.destinations.is_none() {
        for (label, takes_part) in &mut kinds {
            *takes_part = label.is_some_and(Kind::is_compute);
        }
    }
    for end in [&ends.origins, &ends.destinations].into_iter().flatten().flatten() {
        if let Some((_, takes_part)) = kinds.get_mut(*end) {
            *takes_part = true;
        }
    }
    let made = vertices.iter().zip(kinds).map(|(vertex, (label, takes_part))| {
        let kind = match label.filter(|label| label.is_compute() == takes_part) {
            Some(label) => label,
            None if takes_part => Kind::Gpu,
            None if vertex.store => Kind::Memory,
            None => Kind::Switch,
        };
        let (copy, reduce, store) = (Some(vertex.copy), Some(vertex.reduce), Some(vertex.store));
        let can = CanEntry { aggregate: None, copy, multicast: None, reduce, store };
        NodeEntry { can: Some(can), ..node(vertex.id.clone(), kind) }
    });
    made.collect()
}

/// Writes capacities, equal ones once.
struct Capacities<'a> {
    word: &'a str,
    share: Share,
}

impl Capacities<'_> {
    fn text(&mut self, limit: Option<&Rational>) -> Text {
        match limit {
            Some(limit) => self.share.text(&format!("{limit}{}", self.word)),
            None => self.share.text("unlimited"),
        }
    }
}

fn links(form: &Form, capacities: &mut Capacities<'_>) -> Vec<LinkEntry> {
    let mut own: BTreeMap<u64, &Rational> = BTreeMap::new();
    for limit in form.groups.iter().flatten() {
        if let ([edge], Some(limit)) = (&limit.edges[..], &limit.bw.value) {
            own.entry(*edge).and_modify(|least| *least = limit.min(least)).or_insert(limit);
        }
    }
    let mut costs = form.cost.iter().flatten();
    let links = (0..).zip(&form.edges).map(|(place, edge)| {
        let capacity = capacities.text(own.get(&place).copied());
        let cost = costs.next().and_then(|cost| cost.value.as_ref()).filter(|cost| **cost != Rational::ONE);
        let cost = cost.map(|cost| capacities.share.text(&cost.to_string()));
        LinkEntry { cost, ..link(edge.from.clone(), edge.to.clone(), capacity, false) }
    });
    links.collect()
}

/// Limits of several edges.
fn groups(form: &Form, capacities: &mut Capacities<'_>) -> Vec<GroupEntry> {
    // How many edges a pair has, and which of them each edge is.
    let mut parallel: HashMap<&Edge, u32> = HashMap::new();
    let which: Vec<u32> = form
        .edges
        .iter()
        .map(|edge| {
            let count = parallel.entry(edge).or_insert(0);
            *count += 1;
            *count - 1
        })
        .collect();
    let member = |place: &u64| {
        let place = usize::try_from(*place).ok()?;
        let (edge, which) = (form.edges.get(place)?, *which.get(place)?);
        let index = parallel.get(edge).filter(|count| **count > 1).map(|_| which);
        Some(MemberEntry { from: edge.from.clone(), to: edge.to.clone(), index })
    };
    let limits = form.groups.iter().flatten().enumerate().filter(|(_, limit)| limit.edges.len() > 1);
    let groups = limits.map(|(place, limit)| GroupEntry {
        capacity: capacities.text(limit.bw.value.as_ref()),
        links: limit.edges.iter().filter_map(member).collect(),
        name: Some(format!("group {place}").into()),
    });
    groups.collect()
}
