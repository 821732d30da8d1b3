//! Contents `rates`, `weights` and `order`, the flows they are about, and files of flows.

use super::{Decimal, Names, NodeId, RateText, Size, Version};
use sluice_formats::json::{Json, Limits, Reader, Writer, form, words};
use sluice_formats::problem::{Code, E_KEY, MAX_PROBLEMS, Problem, Problems};
use sluice_formats::quantity::Rational;

form! {
    /// A flow of a collective, and what a plan decides for it.
    pub struct Flow {
        /// The collective it belongs to.
        pub collective: u64 = "collective",
        /// Node that the flow ends at.
        pub dst: NodeId = "dst",
        /// The group of flows within the collective.
        pub group: u64 = "group",
        /// Its number, by which dependencies name it.
        pub id: u64 = "id",
        /// Its place in the order of its group; each waits for the one before.
        pub order: u64 = "order",
        /// Indices of the links it takes.
        pub path: Vec<u32> = "path",
        /// Flows that it waits for, besides the one before it in its group.
        pub pred: Option<Vec<u64>> = "pred",
        /// Its place in an order by priority; the lower goes first.
        pub rank: Option<u64> = "rank",
        /// What it gets; of an order that is preserved, what it gets instead of its route for itself.
        pub rate: Option<RateText> = "rate",
        /// When it may begin, in seconds.
        pub release_s: Option<Decimal> = "release_s",
        /// Bytes to move, with unit.
        pub size: Size = "size",
        /// Node that the flow begins at.
        pub src: NodeId = "src",
        /// When it begins, in seconds.
        pub start_s: Option<Decimal> = "start_s",
    }
}

words! {
    /// How rates, weights and orders are carried out. A flow is ready when it is released and all it waits for have ended.
    pub enum Execution {
        /// Nothing is reserved: ready flows share every link by max-min with the weights of their groups.
        MaxMin = "max_min",
        /// A flow begins when all that the plan has before it on its links have ended.
        OrderPreserving = "order_preserving",
        /// Of the ready flows each takes what is left on its route, by rank, then the one with more left to do in its group.
        Priority = "priority",
        /// The same without ranks: the collective goes first that would end first if it were alone from now on.
        PriorityRecomputed = "priority_recomputed",
        /// Rates stay as they are, and nobody uses what others leave.
        Static = "static",
        /// A ready flow has its rate; what is left is divided by max-min, with the rates as weights.
        WorkConserving = "work_conserving",
    }
}

/// A rate kept free on a link.
pub type Reserve = (u32, RateText);

form! {
    /// Rates of a group of flows.
    pub struct ReserveGroup {
        /// Number of the collective that the group is of.
        pub collective: u64 = "collective",
        /// The group within it.
        pub group: u64 = "group",
        /// What it has on each link.
        pub reserve: Vec<Reserve> = "reserve",
    }
}

form! {
    /// The weight of a group of flows.
    pub struct WeightGroup {
        /// Number of the collective that the group is of.
        pub collective: u64 = "collective",
        /// The group within it.
        pub group: u64 = "group",
        /// Its share of a link, beside those of all groups that ever use it.
        pub weight: Rational = "weight",
    }
}

/// Content `rates`: what every flow gets, all the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// The flows, each with its rate.
    pub flows: Vec<Flow>,
    /// What groups have on links.
    pub groups: Option<Vec<ReserveGroup>>,
    /// How it is carried out.
    pub execution: Execution,
}

/// Content `weights`: how groups of flows share links.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The flows, none with a rate of its own.
    pub flows: Vec<Flow>,
    /// The weight of every group that the flows name.
    pub groups: Vec<WeightGroup>,
    /// How it is carried out.
    pub execution: Execution,
}

/// Content `order`: which flows go before which.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered {
    /// The flows, each with start or rank.
    pub flows: Vec<Flow>,
    /// How it is carried out.
    pub execution: Execution,
}

/// Bytes of a file of flows at most.
pub const MAX_FLOWS_BYTES: usize = 64 << 20;
/// Flows of a file at most.
pub const MAX_FLOWS: usize = 1_000_000;
/// A file of flows with more than one of these.
pub const TOO_LARGE: Code = "TooLarge";
/// Numbers, ids and brackets of a file of flows at most: no file of that many bytes has more.
const MAX_ELEMENTS: u64 = 80_000_000;

form! {
    /// A file of flows: what there is to plan, before anything is decided.
    pub struct Flows {
        /// Pairs of flows, the first before the second; absent: as the orders say.
        pub deps: Option<Vec<(u64, u64)>> = "deps",
        /// The flows, each with a number of its own.
        pub flows: Vec<Flow> = "flows",
        /// The version, always 1.
        pub version: Version = "sluice_flows",
    }
}

impl Flows {
    /// Reads a file of flows, and the ids that its nodes stand for; `file` is the name used in messages.
    ///
    /// # Errors
    /// [`TOO_LARGE`]; all mistakes of form with their JSON pointers, in the order of the codes; keys of a flow that only a plan
    /// can say.
    pub fn read(bytes: &[u8], file: &str) -> Result<(Flows, Names), Problems> {
        Flows::read_at_most(bytes, file, MAX_FLOWS_BYTES, MAX_FLOWS)
    }

    fn read_at_most(bytes: &[u8], file: &str, most: usize, most_flows: usize) -> Result<(Flows, Names), Problems> {
        let too_large = |found: String, allowed: String| {
            let problem = Problem::new(TOO_LARGE, "", "the file is too large").found(found).allowed(allowed);
            Problems::from(problem).in_file(file)
        };
        if bytes.len() > most {
            return Err(too_large(format!("{} bytes", bytes.len()), format!("at most {most} bytes")));
        }
        let limits = Limits { bytes: most, elements: MAX_ELEMENTS, charged: (0, "edges") };
        let (flows, names) = Reader::new(bytes, limits, file)?.document(<Flows as Json>::read)?;
        if flows.flows.len() > most_flows {
            return Err(too_large(format!("{} flows", flows.flows.len()), format!("at most {most_flows} flows")));
        }
        match Problems::collect(flows.decided(), file) {
            Some(problems) => Err(problems),
            None => Ok((flows, names)),
        }
    }

    /// What flows say that only a plan decides.
    fn decided(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (i, flow) in self.flows.iter().enumerate() {
            let keys = [
                ("pred", flow.pred.is_some()),
                ("rank", flow.rank.is_some()),
                ("rate", flow.rate.is_some()),
                ("start_s", flow.start_s.is_some()),
            ];
            for (key, _) in keys.into_iter().filter(|(_, present)| *present) {
                let message = format!("a plan decides `{key}`, and a file of flows has none");
                let help = if key == "pred" { "say what a flow waits for with `deps`" } else { "leave it out" };
                problems.push(Problem::new(E_KEY, format!("/flows/{i}/{key}"), message).help(help));
                if problems.len() >= MAX_PROBLEMS {
                    return problems;
                }
            }
        }
        problems
    }

    /// The flows as a file: keys sorted, the same bytes for the same flows.
    #[must_use]
    pub fn to_text(&self, names: &Names) -> String {
        Writer::lines(self, Some(names))
    }

    /// The same flows with ids of other names.
    #[must_use]
    pub fn renamed(&self, names: &Names, into: &mut Names) -> Flows {
        let mut node = |node: NodeId| into.intern(names.text(node));
        let flows = self.flows.iter().map(|flow| Flow { dst: node(flow.dst), src: node(flow.src), ..flow.clone() });
        Flows { flows: flows.collect(), deps: self.deps.clone(), version: Version }
    }
}

#[cfg(test)]
mod tests;
