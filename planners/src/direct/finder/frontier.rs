//! Who beats whom.

use std::cmp::Ordering;

use super::Candidate;

/// Does `a` make `b` superfluous as a result: no more steps, no more time, and one of both less?
fn beats(a: &Candidate, b: &Candidate) -> bool {
    a.t_l <= b.t_l && a.t_b <= b.t_b && (a.t_l < b.t_l || a.t_b < b.t_b)
}

/// Can `a` do all that `b` can as a base of expansions?
fn serves(a: &Candidate, b: &Candidate) -> bool {
    let no_less = |a: bool, b: bool| a || !b;
    no_less(a.flags.loop_free, b.flags.loop_free)
        && no_less(a.flags.mirrored, b.flags.mirrored)
        && no_less(a.flags.constructible, b.flags.constructible)
}

/// Fewer steps first, then less time; then what can be built, is exact, has fewer expansions, comes first in writing.
fn order(a: &Candidate, b: &Candidate) -> Ordering {
    let doubt = |of: &Candidate| (!of.flags.constructible, !of.flags.exact, of.expr.expansions());
    let cost = a.t_l.cmp(&b.t_l).then_with(|| a.t_b.cmp(&b.t_b));
    cost.then_with(|| doubt(a).cmp(&doubt(b))).then_with(|| a.expr.to_string().cmp(&b.expr.to_string()))
}

/// The candidates that no other beats, one of each cost, fewest steps first.
pub fn least(mut all: Vec<Candidate>) -> Vec<Candidate> {
    all.sort_by(order);
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in all {
        // Steps ascend, so only what is kept already can be as good.
        if kept.last().is_none_or(|last| candidate.t_b < last.t_b) {
            kept.push(candidate);
        }
    }
    kept
}

/// The candidates that no other replaces as a base of expansions, in the same order.
pub fn useful(mut all: Vec<Candidate>) -> Vec<Candidate> {
    all.sort_by(order);
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in all {
        let replaced = |other: &Candidate| {
            (beats(other, &candidate) || (other.t_l, &other.t_b) == (candidate.t_l, &candidate.t_b))
                && serves(other, &candidate)
        };
        if !kept.iter().any(replaced) {
            kept.push(candidate);
        }
    }
    kept
}
