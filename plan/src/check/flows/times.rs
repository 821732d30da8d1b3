//! The claimed times of flows against those that they take.

use crate::check::achieved::{Achieved, Exactness, Quantity};
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use crate::check::{Report, claims};
use crate::plan::{Decimal, Plan};
use sluice_formats::quantity::Rational;

/// What is known of completion times in seconds, by collective in the order of their numbers.
pub struct Times {
    /// They are not shorter.
    pub least: Vec<Rational>,
    /// They are not longer, if anything is known of that.
    pub most: Option<Vec<Rational>>,
}

impl Times {
    /// These, and no others.
    pub fn exactly(times: Vec<Rational>) -> Times {
        Times { most: Some(times.clone()), least: times }
    }
}

/// Compares the claimed times: with these where they are known, else with what bounds them.
pub fn check_times(plan: &Plan, fabric: &Fabric<'_>, times: &Times, report: &mut Report) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let Times { least, most } = times;
    let most = most.as_deref();
    let of_all: Vec<Rational> = claim.t.iter().flatten().map(Decimal::value).collect();
    let wrong = |key: String, message: String| Err(Violation::new(Code::WrongTime, key, message));
    let inside = |value: &Rational, low: &Rational, high: Option<&Rational>| {
        let above = value >= low || Exactness::Wan.same(value, low);
        above && high.is_none_or(|high| value <= high || Exactness::Wan.same(value, high))
    };
    let between = |low: &Rational, high: Option<&Rational>| match high {
        Some(high) if low == high => format!("the flows take {:.6} s", low.to_f64()),
        Some(high) => format!("the flows take {:.6} to {:.6} s", low.to_f64(), high.to_f64()),
        None => format!("the flows take at least {:.6} s", low.to_f64()),
    };
    if claim.t.is_some() {
        if of_all.len() != least.len() {
            return wrong("/claim/T".into(), format!("there are {} collectives", least.len()));
        }
        for (i, value) in of_all.iter().enumerate() {
            let high = most.and_then(|most| most.get(i));
            if !inside(value, &least[i], high) {
                return wrong(format!("/claim/T/{i}"), between(&least[i], high));
            }
        }
    }
    let (low, high) = (mean(least), most.map(mean));
    if let Some(claimed) = claim.t_mean_s.as_ref().map(Decimal::value) {
        let of_claims = mean(&of_all);
        if !inside(&claimed, &low, high.as_ref()) {
            return wrong("/claim/T_mean_s".into(), between(&low, high.as_ref()));
        }
        if claim.t.is_some() && !Exactness::Wan.same(&claimed, &of_claims) {
            return wrong("/claim/T_mean_s".into(), format!("the mean of `T` is {:.6} s", of_claims.to_f64()));
        }
    }
    let known = high.as_ref() == Some(&low);
    if known {
        report.proved.push(format!("T_mean_s {:.6}", low.to_f64()));
    } else {
        let at_most = high.as_ref().map_or(String::new(), |high| format!(" and at most {:.6} s", high.to_f64()));
        report.proved.push(format!("the mean time is at least {:.6} s{at_most}", low.to_f64()));
        let most = super::replay::MOST_VISITS;
        report.not_rechecked.push(format!("the exact times: a replay takes more than {most} visits of links"));
    }
    let value = match claim.t_mean_s.as_ref().map(Decimal::value) {
        Some(claimed) if !known => claimed,
        _ => low,
    };
    claims::check(plan, fabric, &Achieved { value, quantity: Quantity::MeanSeconds, exactness: Exactness::Wan }, report)
}

fn mean(times: &[Rational]) -> Rational {
    let sum: Rational = times.iter().sum();
    sum.checked_div(&Rational::from(times.len() as u64)).unwrap_or(Rational::ZERO)
}
