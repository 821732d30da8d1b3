//! Plans of one collective on one topology side by side: how long each takes for which size, and which is best.

mod picture;

use crate::check::Proof;
use crate::cost::Cost;
use crate::plan::{Collective, ContentKind, Plan};
use sluice_formats::problem::{E_LIMIT, E_RANGE, Problem, Problems, printable};
use sluice_formats::quantity::{Rational, Unit};
use sluice_formats::topology::Topology;

/// Plans at most: a picture has as many colours.
pub const MAX_PLANS: usize = 12;
/// Sizes at most: a comparison has a row for each.
pub const MAX_SIZES: usize = 64;

/// Plans side by side.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    topology: &'a Topology,
    /// Bytes, in the order in which they were asked for.
    pub sizes: Vec<Rational>,
    /// The plans, in the order in which they came.
    pub rows: Vec<Row>,
    alike: Option<Alike>,
}

/// What must be the same of all plans.
#[derive(Clone, Debug, PartialEq)]
struct Alike {
    file: String,
    collective: Collective,
    /// Ids of the participants, sorted: ranks do not change a time.
    participants: Vec<String>,
    root: Option<String>,
}

/// A plan among others.
#[derive(Clone, Debug)]
pub struct Row {
    /// The file's name, or another.
    pub name: String,
    /// The planner, by the command that made the plan.
    pub planner: Option<String>,
    /// The kind of its content.
    pub kind: ContentKind,
    /// Its time for hardly any data.
    pub latency: Rational,
    /// Its time for each byte of very much data.
    pub per_byte: Rational,
    /// Its time for each size.
    pub times: Vec<Rational>,
    /// How good it is proved to be, each kind of certificate in its own quantity.
    pub proof: Option<Proof>,
    /// Seconds that it took to make, if the plan says so.
    pub seconds: Option<Rational>,
    cost: Cost,
}

impl<'a> Comparison<'a> {
    /// No plan yet.
    ///
    /// # Errors
    /// `E_LIMIT` for more than [`MAX_SIZES`].
    pub fn new(topology: &'a Topology, sizes: Vec<Rational>) -> Result<Comparison<'a>, Problems> {
        if sizes.is_empty() || sizes.len() > MAX_SIZES {
            let error = Problem::new(E_LIMIT, "sizes", "not a number of sizes that can be shown");
            return Err(error.found(sizes.len().to_string()).allowed(format!("1 to {MAX_SIZES}")).into());
        }
        Ok(Comparison { topology, sizes, rows: Vec::new(), alike: None })
    }

    /// Adds a plan; `name` stands in the comparison and in messages.
    ///
    /// # Errors
    /// `E_RANGE` where its topology, its collective, its participants or its root is not that of the first plan, with both
    /// names; `E_LIMIT` for more than [`MAX_PLANS`]; what [`Cost::new`] refuses.
    pub fn add(&mut self, name: &str, plan: &Plan) -> Result<(), Problems> {
        if self.rows.len() == MAX_PLANS {
            let error = Problem::new(E_LIMIT, "", "more plans than can be told apart").in_file(name);
            return Err(error.allowed(format!("at most {MAX_PLANS}")).into());
        }
        self.is_alike(name, plan).map_err(|errors| errors.in_file(name))?;
        let cost = Cost::new(plan, self.topology).map_err(|errors| errors.in_file(name))?;
        let made_by = plan.body.made_by.as_ref();
        let command = made_by.and_then(|made| made.command.as_deref());
        let planner = command.and_then(|command| command.strip_prefix("sluice plan ")?.split_whitespace().next());
        self.rows.push(Row {
            name: name.to_owned(),
            planner: planner.map(|planner| printable(planner, 20)),
            kind: plan.body.content.kind(),
            latency: cost.latency(),
            per_byte: cost.per_byte(),
            times: self.sizes.iter().map(|size| cost.time(size)).collect(),
            proof: cost.report.proof.clone(),
            seconds: made_by.and_then(|made| made.seconds.as_ref()).map(|seconds| seconds.value()),
            cost,
        });
        Ok(())
    }

    /// Is the plan of the same collective on the same topology as the first? The first is what the others are held against.
    fn is_alike(&mut self, name: &str, plan: &Plan) -> Result<(), Problems> {
        let digest = self.topology.digest();
        let first = self.alike.as_ref().map_or("the topology given", |alike| &alike.file);
        if *plan.body.topology.sha256 != *digest {
            let error = Problem::new(E_RANGE, "/topology/sha256", format!("not the topology of {first}"));
            return Err(error.found(printable(&plan.body.topology.sha256, 80)).allowed(digest).into());
        }
        let mut participants: Vec<String> = match &plan.body.participants {
            Some(list) => list.iter().map(|node| plan.id(*node).to_owned()).collect(),
            None => {
                self.topology.compute().into_iter().map(|node| self.topology.nodes()[node].id.to_string()).collect()
            }
        };
        participants.sort_unstable();
        let root = plan.body.root.map(|root| plan.id(root).to_owned());
        let own = Alike { file: name.to_owned(), collective: plan.body.collective, participants, root };
        let Some(alike) = &self.alike else {
            self.alike = Some(own);
            return Ok(());
        };
        let differs = |key: &str, what: &str, found: &str, allowed: &str| {
            let error = Problem::new(E_RANGE, key, format!("not the {what} of {first}"));
            Err(error.found(printable(found, 80)).allowed(printable(allowed, 80)).into())
        };
        if own.collective != alike.collective {
            return differs("/collective", "collective", own.collective.word(), alike.collective.word());
        }
        if own.participants != alike.participants {
            let (found, allowed) = (own.participants.join(" "), alike.participants.join(" "));
            return differs("/participants", "participants", &found, &allowed);
        }
        if own.root != alike.root {
            let none = || "no root".to_owned();
            return differs("/root", "root", &own.root.unwrap_or_else(none), &alike.root.clone().unwrap_or_else(none));
        }
        Ok(())
    }

    /// The collective of all plans, once there is one.
    pub fn collective(&self) -> Option<Collective> {
        self.alike.as_ref().map(|alike| alike.collective)
    }
    /// How many take part.
    pub fn participants(&self) -> usize {
        self.alike.as_ref().map_or(0, |alike| alike.participants.len())
    }
    /// The topology of all plans.
    pub fn topology(&self) -> &Topology {
        self.topology
    }
    /// Are times seconds and sizes bytes? Else both are abstract.
    pub fn has_units(&self) -> bool {
        self.topology.unit() != Unit::Abstract
    }
    /// Is this plan as fast as any other for the size at this place?
    pub fn is_best(&self, row: &Row, place: usize) -> bool {
        let own = row.times.get(place);
        own.is_some() && own == self.rows.iter().filter_map(|row| row.times.get(place)).min()
    }
    /// Time against size as SVG, both axes logarithmic.
    pub fn picture(&self) -> String {
        picture::svg(self)
    }
}

#[cfg(test)]
mod tests;
