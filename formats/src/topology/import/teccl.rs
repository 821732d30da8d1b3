//! The form of TE-CCL: numbered nodes, GPUs first, and links in groups of one rate and one latency.

use super::{Problems, empty_file, link, node};
use crate::json::{Decimal, Json, Limits, Reader, form};
use crate::problem::{E_LIMIT, MAX_PROBLEMS, Problem};
use crate::quantity::Rational;
use crate::topology::{CanEntry, Kind, MAX_LINKS, Text, Topology};

const LIMITS: Limits = Limits { bytes: super::MAX_BYTES, elements: 8_000_000, charged: (MAX_LINKS, "pairs") };
/// Nodes of a form at most.
const MAX_NODES: u64 = 100_000;

form! {
    pub struct Form {
        /// Directed links, as a check sum.
        pub directed_links: Option<u64> = "directed_links",
        /// How many of the nodes are GPUs, from the first on.
        pub gpus: u64 = "gpus",
        pub links: Vec<Group> = "links",
        /// What the fabric is called.
        pub name: Option<Text> = "name",
        /// How many nodes there are.
        pub nodes: u64 = "nodes",
        /// The nodes that only forward.
        pub switches: Vec<u64> = "switches",
        /// The rates of all directed links, as a check sum.
        pub total: Option<Decimal> = "total_GBps",
    }
}

form! {
    /// Links that are alike.
    pub struct Group {
        /// Gigabytes per second.
        pub rate: Decimal = "GBps",
        /// Microseconds of latency.
        pub alpha: Option<Decimal> = "alpha_us",
        /// Does every pair stand for two links?
        pub both_ways: bool = "both_ways",
        /// From, to.
        pub pairs: Vec<(u64, u64)> = "pairs",
    }
}

/// Reads the form. Ids are the numbers; switches copy what goes to several nodes only if `copying`.
///
/// # Errors
/// All mistakes with pointers into the form: `E_…` of the text, then `BadNode` and `BadLink`.
pub fn teccl(bytes: &[u8], file: &str, copying: bool) -> Result<Topology, Problems> {
    let form = Reader::new(bytes, LIMITS, file)?.document(Form::read)?.0;
    let mut errors = Vec::new();
    let mut refuse = |code, key: String, message: &str, found: String, allowed: &str| {
        if errors.len() < MAX_PROBLEMS {
            errors.push(Problem::new(code, key, message).found(found).allowed(allowed));
        }
    };
    if form.nodes > MAX_NODES {
        let error = Problem::new(E_LIMIT, "/nodes", "more nodes than can be read").found(form.nodes.to_string());
        return Err(Problems::from(error.allowed(format!("at most {MAX_NODES}"))).in_file(file));
    }
    let mut made = empty_file();
    made.name = form.name;
    for number in 0..form.nodes {
        made.nodes.push(node(number.to_string().into(), Kind::Gpu));
    }
    let mut gpus = form.nodes;
    for (i, number) in form.switches.iter().enumerate() {
        let entry = usize::try_from(*number).ok().and_then(|place| made.nodes.get_mut(place));
        match entry.filter(|entry| entry.kind == Kind::Gpu) {
            Some(entry) => {
                entry.kind = Kind::Switch;
                let can = CanEntry { aggregate: None, copy: None, multicast: Some(true), reduce: None, store: None };
                entry.can = copying.then_some(can);
                gpus -= 1;
            }
            None => refuse(
                "BadNode",
                format!("/switches/{i}"),
                "no such node, or a switch twice",
                number.to_string(),
                "a number below `nodes`, once",
            ),
        }
    }
    if gpus != form.gpus {
        let found = form.gpus.to_string();
        refuse("BadNode", "/gpus".into(), "not what `nodes` and `switches` leave", found, "as many as are no switches");
    }
    let (mut count, mut total) = (0_u64, Rational::ZERO);
    for (i, group) in form.links.iter().enumerate() {
        let (rate, alpha) = (group.rate.value(), group.alpha.as_ref().map_or(Rational::ZERO, Decimal::value));
        if !rate.is_positive() || alpha.is_negative() {
            let found = format!("{rate} GB/s, {alpha} µs");
            refuse("BadLink", format!("/links/{i}"), "not a link", found, "a rate above 0 and a latency of 0 or more");
            continue;
        }
        for (j, (from, to)) in group.pairs.iter().enumerate() {
            if *from.max(to) >= form.nodes || from == to {
                let found = format!("{from} to {to}");
                let key = format!("/links/{i}/pairs/{j}");
                refuse("BadLink", key, "not a link", found, "two different numbers below `nodes`");
                continue;
            }
            let [from, to] = [from, to].map(|number| Text::from(number.to_string()));
            let mut entry = link(from, to, format!("{rate}GB/s").into(), group.both_ways);
            entry.latency = alpha.is_positive().then(|| format!("{alpha}us").into());
            made.links.push(entry);
            let directed = 1 + u64::from(group.both_ways);
            count += directed;
            total += &(&rate * &Rational::from(directed));
        }
    }
    if let Some(sum) = form.directed_links.filter(|sum| *sum != count) {
        let allowed = format!("{count}, which is how many there are");
        refuse("BadLink", "/directed_links".into(), "the check sum is wrong", sum.to_string(), &allowed);
    }
    if let Some(sum) = form.total.map(|sum| sum.value()).filter(|sum| *sum != total) {
        let allowed = format!("{total}, which is what they add up to");
        refuse("BadLink", "/total_GBps".into(), "the check sum is wrong", sum.to_string(), &allowed);
    }
    match Problems::collect(errors, file) {
        Some(errors) => Err(errors),
        None => Topology::build(made, file),
    }
}
