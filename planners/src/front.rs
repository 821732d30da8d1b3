//! The front of every planner: who takes part, where the root is, which keys of a topology the planner knows, and the
//! check that every finished plan passes.
//!
//! A planner says in a [`Support`] what it serves and knows, reads its instance out of what was [`Asked`], and gives
//! back a [`Draft`]: content, and what it claims of it.

#[cfg(test)]
mod tests;

use sluice_formats::problem::{
    Code, DUPLICATE_NODE, E_KEY, E_MISSING, E_RANGE, MAX_PROBLEMS, Problem, Problems, UNKNOWN_NODE, UNSUPPORTED_FIELD,
    hint,
};
use sluice_formats::topology::{Can, Kind, Topology};
use sluice_plan::check::{self, Report};
use sluice_plan::plan::{Claim, Collective, Content, Demands, MadeBy, Names, NodeId, Plan};
use std::collections::{BTreeMap, HashSet};
use std::panic::resume_unwind;
use std::thread;

/// Nodes among which the nearest to an unknown id is looked for; in a larger topology that takes longer than it is worth.
const MAX_NEAR: usize = 512;

/// What a planner serves and knows: a column of the table in planners/README.md.
#[derive(Clone, Copy, Debug)]
pub struct Support {
    /// What it makes, in the plural, as messages have it: `trees`.
    pub makes: &'static str,
    /// The collectives that these serve.
    pub collectives: &'static [Collective],
    /// Keys that change what a fabric can do and that it knows nothing of. They are refused, or left out on request.
    pub ignorable: &'static [&'static str],
    /// Do nodes that take no part forward? Else there must be none.
    pub relays: bool,
    /// May participants hold unequal shares?
    pub weights: bool,
    /// The code under which it refuses a link from a node to itself; `None`: it takes them.
    pub self_loop: Option<Code>,
    /// The code under which it refuses a link without a limit of its own; `None`: it takes them.
    pub unlimited: Option<Code>,
    /// What a participant must be able to do.
    pub needs: fn(Collective) -> Can,
    /// The code under which it gives up a plan of its own that the checker refuses.
    pub own_fault: Code,
}

/// Does a collective add up?
pub(crate) fn reduces(collective: Collective) -> bool {
    matches!(collective, Collective::ReduceScatter | Collective::AllReduce | Collective::Reduce)
}

/// What is asked of a topology.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is to be done with the data.
    pub collective: Collective,
    /// Ids of who takes part, by rank; `None`: all gpu, host and site nodes in file order.
    pub participants: Option<&'a [String]>,
    /// Id of the root, of a collective that has one.
    pub root: Option<&'a str>,
    /// Which keys to plan without.
    pub ignore: &'a [String],
}

impl Request<'static> {
    /// Everybody takes part, there is no root, and no key is ignored.
    pub fn of_all(collective: Collective) -> Request<'static> {
        Request { collective, participants: None, root: None, ignore: &[] }
    }
}

/// A request that a planner can serve, in the indices of its topology.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Where the participants are, with all that lies between them.
    pub topology: &'a Topology,
    /// The file's name in messages.
    pub file: String,
    /// What is to be done with the data.
    pub collective: Collective,
    /// Who takes part: nodes by rank.
    pub participants: Vec<usize>,
    /// The root's rank among the participants; `None` of a collective without one.
    pub root: Option<usize>,
    /// Keys that are there and are ignored.
    pub ignored: Vec<&'static str>,
    support: &'static Support,
}

/// What a planner gives back: content, and what it claims of it.
#[derive(Debug)]
pub struct Draft {
    /// The ids in `content` and `claim`.
    pub names: Names,
    /// The trees, steps and so on.
    pub content: Content,
    /// Time, bandwidth, and the bound on them with its certificate.
    pub claim: Claim,
    /// What is wanted, where it is no plain collective.
    pub demands: Option<Demands>,
}

impl<'a> Asked<'a> {
    /// Reads what is asked; `file` is the topology's name in messages.
    ///
    /// # Errors
    /// What is wrong with the request, under the parameter's name; then, with pointers into the topology,
    /// `UNSUPPORTED_FIELD` for nodes and keys, and the planner's own codes for self-loops and links without limit.
    pub fn new(
        topology: &'a Topology,
        request: &Request<'_>,
        file: &str,
        support: &'static Support,
    ) -> Result<Asked<'a>, Problems> {
        let participants = participants(topology, request)?;
        let root = root(topology, request, &participants, support)?;
        let refuse = |errors: Vec<Problem>| Problems::collect(errors, file).map_or(Ok(()), Err);
        refuse(nodes(topology, request.collective, &participants, support))?;
        let (unsupported, ignored) = keys(topology, request.ignore, support);
        refuse(unsupported)?;
        refuse(self_loops(topology, support))?;
        refuse(unlimited(topology, support))?;
        let (file, collective) = (file.into(), request.collective);
        Ok(Asked { topology, file, collective, participants, root, ignored, support })
    }

    /// A collective of all nodes of a topology that the planner itself made: there is nothing in it to refuse.
    pub fn of_all(topology: &'a Topology, collective: Collective, support: &'static Support) -> Asked<'a> {
        let participants = (0..topology.nodes().len()).collect();
        Asked { topology, file: String::new(), collective, participants, root: None, ignored: Vec::new(), support }
    }

    /// The same for another collective of the same nodes, as a part of the work.
    pub fn but(&self, collective: Collective) -> Asked<'a> {
        Asked { collective, ..self.clone() }
    }

    /// A problem of the topology.
    pub fn in_file(&self, problem: Problem) -> Problems {
        Problems::from(problem).in_file(&self.file)
    }

    /// The finished plan; who made it is for the caller to add.
    ///
    /// # Errors
    /// The planner's own fault, where the checker, which shares no code with it, refuses the plan.
    pub fn plan(&self, draft: Draft) -> Result<Plan, Problems> {
        let plan = self.put_together(draft);
        self.checked(&plan)?;
        Ok(plan)
    }

    /// As [`Asked::plan`] for a plan of `made_by`, and what `work` makes of it on another thread while the checker reads it:
    /// large plans take as long to write as to check.
    ///
    /// # Errors
    /// As [`Asked::plan`]; what `work` made is dropped then.
    pub(crate) fn plan_while<T: Send>(
        &self,
        draft: Draft,
        made_by: MadeBy,
        work: impl FnOnce(&Plan) -> T + Send,
    ) -> Result<(Plan, T), Problems> {
        let mut plan = self.put_together(draft);
        plan.body.made_by = Some(made_by);
        let (checked, done) = thread::scope(|scope| {
            let working = scope.spawn(|| work(&plan));
            (self.checked(&plan), working.join())
        });
        checked?;
        Ok((plan, done.unwrap_or_else(|panic| resume_unwind(panic))))
    }

    /// A plan that nobody has checked yet.
    pub(crate) fn put_together(&self, draft: Draft) -> Plan {
        let Draft { mut names, content, claim, demands } = draft;
        let nodes = self.topology.nodes();
        let ids: Vec<NodeId> = self.participants.iter().map(|node| names.intern(&nodes[*node].id)).collect();
        let mut plan = Plan::new(self.topology, self.collective, names, content);
        plan.body.root = self.root.map(|rank| ids[rank]);
        plan.body.participants = Some(ids);
        plan.body.ignored = (!self.ignored.is_empty()).then(|| self.ignored.iter().map(|key| (*key).into()).collect());
        plan.body.claim = claim;
        plan.body.demands = demands;
        plan
    }

    /// What the checker found of a plan.
    ///
    /// # Errors
    /// As [`Asked::plan`].
    pub(crate) fn checked(&self, plan: &Plan) -> Result<Report, Problems> {
        let report = check::check(plan, Some(self.topology));
        let Some(violation) = report.violation else { return Ok(report) };
        let message = format!("the plan did not pass the checker: {}", violation.message);
        let error = Problem::new(self.support.own_fault, violation.at, message);
        Err(error.detail("violation", violation.code.word()).help("please report it with the topology").into())
    }
}

/// Topology indices of the participants, by rank.
fn participants(topology: &Topology, request: &Request<'_>) -> Result<Vec<usize>, Problems> {
    let Some(list) = request.participants else { return Ok(topology.compute()) };
    let (mut ranks, mut errors, mut seen) = (Vec::with_capacity(list.len()), Vec::new(), HashSet::new());
    for id in list {
        match topology.node(id) {
            Some(node) if seen.insert(node) => ranks.push(node),
            Some(_) => {
                errors.push(Problem::new(DUPLICATE_NODE, "participants", "a participant stands twice").found(id))
            }
            None => errors.push(unknown(topology, "participants", id)),
        }
    }
    errors.truncate(MAX_PROBLEMS);
    Problems::collect(errors, "").map_or(Ok(ranks), Err)
}

fn unknown(topology: &Topology, key: &str, id: &str) -> Problem {
    let error = Problem::new(UNKNOWN_NODE, key, "no node has this id").found(id).allowed("an id of /nodes");
    error.help(hint(id, topology.nodes().iter().take(MAX_NEAR).map(|node| &*node.id)).unwrap_or_default())
}

/// The root's rank, of a collective that the planner serves.
fn root(
    topology: &Topology,
    request: &Request<'_>,
    ranks: &[usize],
    support: &Support,
) -> Result<Option<usize>, Problems> {
    let word = request.collective.word();
    if !support.collectives.contains(&request.collective) {
        let message = format!("{} do not serve this collective", support.makes);
        let served: Vec<&str> = support.collectives.iter().map(|collective| collective.word()).collect();
        return Err(Problem::new(E_RANGE, "collective", message).found(word).allowed(served.join(", ")).into());
    }
    match (request.collective.is_rooted(), request.root) {
        (false, None) => Ok(None),
        (true, Some(id)) => {
            let node = topology.node(id).ok_or_else(|| unknown(topology, "root", id))?;
            let rank = ranks.iter().position(|other| *other == node).ok_or_else(|| {
                Problem::new(E_RANGE, "root", "the root takes no part").found(id).allowed("one of the participants")
            })?;
            Ok(Some(rank))
        }
        (true, None) => {
            let error = Problem::new(E_MISSING, "root", format!("`{word}` has a root"));
            Err(error.allowed("the id of a participant").into())
        }
        (false, Some(id)) => {
            Err(Problem::new(E_KEY, "root", format!("`{word}` has no root")).found(id).allowed("nothing").into())
        }
    }
}

/// Nodes for which the planner has no place, and participants that cannot do what every one must.
fn nodes(topology: &Topology, collective: Collective, ranks: &[usize], support: &Support) -> Vec<Problem> {
    let (mut errors, needs) = (Vec::new(), (support.needs)(collective));
    let mut part = vec![false; topology.nodes().len()];
    ranks.iter().for_each(|&node| part[node] = true);
    for (node, of) in topology.nodes().iter().enumerate() {
        let key = |key: &str| format!("/nodes/{node}/{key}");
        if !part[node] {
            if !support.relays {
                let error = Problem::new(UNSUPPORTED_FIELD, key("kind"), format!("{} is no participant", of.id));
                let help = match of.kind {
                    Kind::Memory => "leave it out with its links",
                    _ => {
                        "join the nodes behind it by direct links, or plan with `sluice plan forestcoll`, which goes through it"
                    }
                };
                errors.push(error.found(of.kind.word()).allowed("gpu, host, site").help(help));
            }
            continue;
        }
        let abilities = [
            (needs.store, of.can.store, "store"),
            (needs.copy, of.can.copy, "copy"),
            (needs.reduce, of.can.reduce, "reduce"),
        ];
        for (_, _, word) in abilities.into_iter().filter(|(needed, able, _)| *needed && !able) {
            let message = format!("{} takes part and cannot {word}", of.id);
            let allowed = format!("{word}: true{}", if support.relays { ", or no part in it" } else { "" });
            let error = Problem::new(UNSUPPORTED_FIELD, key("can"), message);
            errors.push(error.found(format!("{word}: false")).allowed(allowed));
        }
        if of.weight != 1 && !support.weights {
            let message = format!("all shards of {} are equally large", support.makes);
            let error = Problem::new(UNSUPPORTED_FIELD, key("weight"), message);
            errors.push(error.found(of.weight.to_string()).allowed("1"));
        }
        if errors.len() >= MAX_PROBLEMS {
            break;
        }
    }
    errors.truncate(MAX_PROBLEMS);
    errors
}

/// Keys that the planner knows nothing of, and those of them that are left out on request.
fn keys(topology: &Topology, ignore: &[String], support: &Support) -> (Vec<Problem>, Vec<&'static str>) {
    let buffers = topology.nodes().iter().enumerate().filter(|(_, node)| node.buffer.is_some());
    let buffers = buffers.map(|(i, _)| ("buffer", format!("/nodes/{i}/buffer"), "a finite buffer"));
    let epochs = topology.file().links.iter().enumerate().filter(|(_, link)| link.capacity_per_epoch.is_some());
    let epochs = epochs.map(|(i, _)| {
        ("capacity_per_epoch", format!("/links/{i}/capacity_per_epoch"), "a capacity that changes with time")
    });
    let groups = (!topology.groups().is_empty()).then(|| ("groups", "/groups".to_owned(), "limits of several links"));
    let (mut errors, mut ignored) = (Vec::new(), Vec::new());
    for (key, at, what) in buffers.chain(epochs).chain(groups).filter(|(key, ..)| support.ignorable.contains(key)) {
        if !ignore.iter().any(|ignored| ignored == key) {
            let error = Problem::new(UNSUPPORTED_FIELD, at, format!("this planner knows nothing of {what}")).found(key);
            let help = format!("--ignore {key} plans as if it were not there, and the plan says so");
            errors.push(error.allowed("nothing").help(help));
        } else if !ignored.contains(&key) {
            ignored.push(key);
        }
        if errors.len() == MAX_PROBLEMS {
            break;
        }
    }
    (errors, ignored)
}

fn self_loops(topology: &Topology, support: &Support) -> Vec<Problem> {
    let Some(code) = support.self_loop else { return Vec::new() };
    let loops = topology.links().iter().filter(|link| link.from == link.to);
    let error = |entry: usize, node: usize| {
        let id = &topology.nodes()[node].id;
        let error = Problem::new(code, format!("/links/{entry}"), "a link leads from a node to itself").found(id);
        error.allowed("links between two nodes")
    };
    let by_entry: BTreeMap<usize, usize> = loops.map(|link| (link.entry, link.from)).collect();
    by_entry.into_iter().take(MAX_PROBLEMS).map(|(entry, node)| error(entry, node)).collect()
}

fn unlimited(topology: &Topology, support: &Support) -> Vec<Problem> {
    let Some(code) = support.unlimited else { return Vec::new() };
    let free = topology.links().iter().filter(|link| link.capacity.finite().is_none());
    let mut entries: Vec<usize> = free.map(|link| link.entry).collect();
    entries.dedup();
    let error = |entry: usize| {
        let error = Problem::new(code, format!("/links/{entry}/capacity"), "the link has no limit of its own");
        error.found("unlimited").allowed("a capacity above zero")
    };
    entries.into_iter().take(MAX_PROBLEMS).map(error).collect()
}
