//! What a plan claims: times, bandwidth, bounds, and the certificate that is to prove the bound.

use super::{Decimal, NodeId, Nullable};
use sluice_formats::json::{Json, Kind, Read, Reader, Writer, form, words};
use sluice_formats::problem::{E_RANGE, Problem};
use sluice_formats::quantity::Rational;

words! {
    /// How a lower bound is proved.
    pub enum CertificateKind {
        /// (N−1)/N of the data over a node's own links.
        Bandwidth = "bandwidth",
        /// Priced inequalities for the completion times of collectives that share a link.
        Completion = "completion",
        /// A set of nodes that too little leads out of.
        Cut = "cut",
        /// The longest of the shortest paths.
        Diameter = "diameter",
        /// The farthest a chunk must go.
        Distance = "distance",
        /// Prices of the groups, from linear programming.
        Dual = "dual",
        /// What must pass the gateways of a machine.
        Gateway = "gateway",
        /// Nothing proves it.
        None = "none",
        /// What a node's ports carry in an epoch.
        Port = "port",
        /// A solver said so.
        Solver = "solver",
    }
}

words! {
    /// How planning ended.
    pub enum Status {
        /// A plan, maybe not the best.
        Feasible = "feasible",
        /// The best plan.
        Optimal = "optimal",
        /// The best plan until time ran out.
        TimeLimit = "time_limit",
    }
}

form! {
    /// An inequality for the completion times of collectives that share a link, with its price.
    pub struct CompletionRow {
        /// Numbers of the collectives, each of which has a flow on the link.
        pub collectives: Vec<u64> = "collectives",
        /// Index of the link.
        pub link: u32 = "link",
        /// What it counts in the bound, per second; not below zero.
        pub price: Rational = "price",
    }
}

form! {
    /// The proof of a lower bound.
    pub struct Certificate {
        /// Prices that prove the least cost, one for each limit as `prices` has them; beside a proof of any kind.
        pub cost_prices: Option<Vec<Rational>> = "cost_prices",
        /// What kind of proof.
        pub kind: CertificateKind = "kind",
        /// The nodes of a cut.
        pub nodes: Option<Vec<NodeId>> = "nodes",
        /// The prices of a dual.
        pub prices: Option<Vec<Rational>> = "prices",
        /// The inequalities of a completion bound.
        pub rows: Option<Vec<CompletionRow>> = "rows",
    }
}

impl Certificate {
    /// A proof of this kind, and nothing with it.
    pub fn new(kind: CertificateKind) -> Certificate {
        Certificate { cost_prices: None, kind, nodes: None, prices: None, rows: None }
    }
}

/// A time per byte: `3/65000000000 s/B`; without unit where the fabric has none, or for other quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerByte {
    /// The number, per byte or of whatever quantity it is about.
    pub value: Rational,
    /// Is it in seconds per byte?
    pub seconds: bool,
}

impl Json for PerByte {
    fn read(reader: &mut Reader<'_>) -> Read<Option<PerByte>> {
        let allowed = "p/q, with ` s/B` behind it where capacities have units";
        let (text, value) = if reader.peek()? == Kind::Number {
            let Some(number) = reader.number(allowed)? else { return Ok(None) };
            let value = Rational::parse_json_number(number).ok().map(|value| PerByte { value, seconds: false });
            (number.to_owned(), value)
        } else {
            let Some(text) = reader.string(allowed)? else { return Ok(None) };
            let (number, seconds) = text.strip_suffix(" s/B").map_or((&*text, false), |number| (number, true));
            let value = Rational::parse(number).ok().map(|value| PerByte { value, seconds });
            (text.into_owned(), value)
        };
        if value.is_none() {
            reader.refuse(Problem::new(E_RANGE, "", "not an exact time").found(text).allowed(allowed));
        }
        Ok(value)
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.text(&format!("{}{}", self.value, if self.seconds { " s/B" } else { "" }));
    }
}

/// A number that is always written as text, `"p/q"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exact(pub Rational);

impl Json for Exact {
    fn read(reader: &mut Reader<'_>) -> Read<Option<Exact>> {
        Ok(Rational::read(reader)?.map(Exact))
    }
    fn write(&self, writer: &mut Writer<'_>) {
        writer.text(&self.0.to_string());
    }
}

form! {
    /// What a plan claims; each kind of content has its own quantities.
    #[derive(Default)]
    pub struct Claim {
        /// Completion time of each collective in seconds, by linear programming or simulation.
        pub t: Option<Vec<Decimal>> = "T",
        /// The bandwidth term of a step schedule, in units of M/B; null where it has none.
        pub t_b: Option<Nullable<Exact>> = "T_B",
        /// The number of steps.
        pub t_l: Option<u64> = "T_L",
        /// Mean completion time in seconds.
        pub t_mean_s: Option<Decimal> = "T_mean_s",
        /// M/T in the unit of the first link.
        pub algorithm_bandwidth: Option<Exact> = "algorithm_bandwidth",
        /// The proof of the lower bound.
        pub certificate: Option<Certificate> = "certificate",
        /// Sum over the links of their cost and the data they carry, in units: a participant's share of an all-gather, a pair's of
        /// an all-to-all, M of the other collectives, a chunk of demands.
        pub cost: Option<Exact> = "cost",
        /// No plan of this time costs less than this.
        pub cost_lower_bound: Option<Exact> = "cost_lower_bound",
        /// Epochs until the last chunk arrives.
        pub finish_epochs: Option<u64> = "finish_epochs",
        /// The same in microseconds.
        pub finish_us: Option<Decimal> = "finish_us",
        /// Sum of the loads of all steps.
        pub load_sum: Option<Exact> = "load_sum",
        /// The largest load of a link in each step.
        pub loads: Option<Vec<Exact>> = "loads",
        /// No plan is better than this, in the quantity of the claim's time.
        pub lower_bound: Option<PerByte> = "lower_bound",
        /// Is no plan better than this one?
        pub optimal: Option<bool> = "optimal",
        /// How planning ended.
        pub status: Option<Status> = "status",
        /// The same as `algorithm_bandwidth`, under the name it has in the linear program of an all-reduce.
        pub sum_x: Option<Exact> = "sum_x",
        /// T/M: the time that each byte of the data takes.
        pub time_per_byte: Option<PerByte> = "time_per_byte",
    }
}
