//! Exact values of graphs, computed once: in memory while the finder runs, as a text between runs.

use std::collections::BTreeMap;

use crate::direct::bfb::{fewest_steps, least_bandwidth};
use crate::direct::{Cost, Expr, Graph, Refusal};
use sluice_formats::problem::printable;
use sluice_formats::quantity::Rational;
use sluice_formats::topology::sha256_hex;

/// The version of the text; another one is not read.
pub const CACHE_VERSION: u32 = 1;
/// Characters of a line at most.
const MAX_LINE: usize = 8192;

/// What the best breadth-first all-gather of a graph costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Steps of its all-gather, T_L.
    pub t_l: u32,
    /// τ, in units of M/B.
    pub t_b: Rational,
}

/// Why a text of values was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}; the values in it will be computed anew")]
pub struct StaleCache {
    /// The first line that is wrong, counted from 1.
    pub line: usize,
    /// What is wrong with that line.
    pub reason: String,
}

/// The values known so far, and how others are computed.
pub struct Values<'a> {
    known: BTreeMap<String, Value>,
    compute: &'a dyn Fn(&Graph) -> Result<Cost, Refusal>,
    computed: u64,
}

impl<'a> Values<'a> {
    /// No values yet; `compute` gives the cost of the best breadth-first all-gather.
    pub fn new(compute: &'a dyn Fn(&Graph) -> Result<Cost, Refusal>) -> Values<'a> {
        Values { known: BTreeMap::new(), compute, computed: 0 }
    }

    /// How many were computed, and not known before.
    pub fn computed(&self) -> u64 {
        self.computed
    }

    /// The value of a graph.
    ///
    /// # Errors
    /// Those of building it and of `compute`; `Internal` for a graph that is not regular.
    pub fn of(&mut self, expr: &Expr) -> Result<Value, Refusal> {
        let text = expr.to_string();
        if let Some(value) = self.known.get(&text) {
            return Ok(value.clone());
        }
        let cost = (self.compute)(&expr.graph()?)?;
        let t_l = cost.t_l();
        let t_b = cost.t_b.ok_or_else(|| Refusal::Internal { reason: format!("{text} is not regular") })?;
        let value = Value { t_l, t_b };
        self.computed += 1;
        self.known.insert(text, value.clone());
        Ok(value)
    }

    /// All values as a text with a digest at its end: `EXPR<tab>steps<tab>p/q` per line.
    pub fn to_text(&self) -> String {
        let mut text = format!("sluice-graph-values {CACHE_VERSION}\n");
        for (expr, Value { t_l, t_b }) in &self.known {
            text += &format!("{expr}\t{t_l}\t{t_b}\n");
        }
        let digest = sha256_hex(text.as_bytes());
        format!("{text}sha256\t{digest}\n")
    }

    /// Takes over the values of such a text, all or none.
    ///
    /// # Errors
    /// Another version, a digest that does not match, a line that is no value or one that no schedule can have.
    pub fn take(&mut self, text: &str) -> Result<usize, StaleCache> {
        let stale = |line: usize, reason: &str| StaleCache { line, reason: reason.to_owned() };
        let end = text.strip_suffix('\n').and_then(|text| text.rfind('\n')).map_or(0, |end| end + 1);
        let (body, last) = text.split_at(end);
        let lines = body.lines().count();
        if body.lines().next() != Some(format!("sluice-graph-values {CACHE_VERSION}").as_str()) {
            return Err(stale(1, &format!("not values of version {CACHE_VERSION}")));
        }
        if last.trim_end() != format!("sha256\t{}", sha256_hex(body.as_bytes())) {
            return Err(stale(lines + 1, "the digest does not match"));
        }
        let mut read = BTreeMap::new();
        for (line, text) in (1..).zip(body.lines()).skip(1) {
            let wrong = || stale(line, &format!("`{}` is no value of a graph", printable(text, 60)));
            let (expr, value) = value(text).ok_or_else(wrong)?;
            read.insert(expr, value);
        }
        let count = read.len();
        self.known.extend(read);
        Ok(count)
    }
}

/// One line, if a schedule can cost that.
fn value(line: &str) -> Option<(String, Value)> {
    if line.len() > MAX_LINE {
        return None;
    }
    let mut fields = line.split('\t');
    let (text, steps, time) = (fields.next()?, fields.next()?, fields.next()?);
    let expr = Expr::parse(text).ok().filter(|expr| expr.to_string() == text)?;
    let (n, d) = expr.size().ok()?;
    let (t_l, t_b) = (steps.parse().ok()?, Rational::parse(time).ok()?);
    let possible = fields.next().is_none() && fewest_steps(n, d)? <= t_l && t_l < n.max(2) && least_bandwidth(n) <= t_b;
    possible.then_some((text.to_owned(), Value { t_l, t_b }))
}
