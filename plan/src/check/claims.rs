//! The claim against the recomputed figures.

use super::achieved::{Achieved, Exactness, Quantity};
use super::fabric::Fabric;
use super::load::Loads;
use super::violation::{Code, Violation};
use super::{Figures, Proof, Report, bound, cost};
use crate::plan::{CertificateKind, Collective, ContentKind, Plan, Status};
use sluice_formats::quantity::{Rational, Unit};

/// Compares what is claimed about a plan of trees or paths.
pub fn check_loads(
    plan: &Plan,
    fabric: &Fabric<'_>,
    loads: &Loads,
    exactness: Exactness,
    report: &mut Report,
) -> Result<(), Violation> {
    let slowest = loads.slowest(fabric);
    report.figures = Some(Figures::new(fabric, &slowest.time, &slowest.place));
    time(plan, fabric, &slowest.time, &slowest.place, exactness, report)?;
    let on_links: Vec<Rational> = (0..fabric.topology.links().len()).map(|link| loads.of_link(fabric, link)).collect();
    cost::check(plan, fabric, &on_links, &slowest.time, exactness, report)?;
    check(plan, fabric, &Achieved { value: slowest.time, quantity: Quantity::TimePerByte, exactness }, report)
}

/// Compares time and bandwidth.
pub fn time(
    plan: &Plan,
    fabric: &Fabric<'_>,
    time: &Rational,
    place: &str,
    exactness: Exactness,
    report: &mut Report,
) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let unit = fabric.topology.unit();
    let bandwidth = time.recip().map(|rate| unit.express(&rate));
    let seconds = unit != Unit::Abstract;
    let suffix = if seconds { " s/B" } else { "" };
    if let Some(claimed) = &claim.time_per_byte {
        if claimed.seconds != seconds || !exactness.same(&claimed.value, time) {
            let message = format!("the loads say {time}{suffix} (on {place})");
            return Err(Violation::new(Code::WrongTime, "/claim/time_per_byte", message));
        }
        report.proved.push(format!("time per byte {time}{suffix}, limited by {place}"));
    }
    for (key, claimed) in [("algorithm_bandwidth", &claim.algorithm_bandwidth), ("sum_x", &claim.sum_x)] {
        let Some(claimed) = claimed else { continue };
        if !bandwidth.as_ref().is_some_and(|bandwidth| exactness.same(&claimed.0, bandwidth)) {
            let message = match &bandwidth {
                Some(bandwidth) => format!("the loads say {bandwidth}"),
                None => "no link limits this plan, so it has no bandwidth".into(),
            };
            return Err(Violation::new(Code::WrongBandwidth, format!("/claim/{key}"), message));
        }
        report.proved.push(format!("{key} {}", claimed.0));
    }
    Ok(())
}

/// Compares the lower bound, and whether the plan is optimal.
pub fn check(plan: &Plan, fabric: &Fabric<'_>, achieved: &Achieved, report: &mut Report) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    foreign(plan)?;
    let Achieved { value, quantity, exactness } = achieved;
    let certificate = claim.certificate.as_ref();
    let kind = certificate.map_or(CertificateKind::None, |certificate| certificate.kind);
    let proved = match certificate {
        Some(certificate) => bound::recompute(plan, fabric, certificate, *quantity)?,
        None => Some(Rational::ZERO),
    };
    let seconds = *quantity == Quantity::TimePerByte && fabric.topology.unit() != Unit::Abstract;
    let unit = quantity.words(seconds);
    if let Some(claimed) = &claim.lower_bound {
        // The unit may be left out of the bound: it is that of the time.
        let wrong_unit = claimed.seconds && !seconds;
        // A bound on the mean of completion times is rounded down, so one may claim a little less, and nobody is misled by less.
        let less = |proved: &Rational| kind == CertificateKind::Completion && claimed.value <= *proved;
        let differs = |proved: &Rational| !exactness.same(proved, &claimed.value) && !less(proved);
        if wrong_unit || proved.as_ref().is_some_and(differs) {
            let message = match &proved {
                Some(proved) => {
                    let shown = quantity.show(proved);
                    format!("the certificate of kind `{}` proves {shown}{unit}", kind.word())
                }
                None => "the bound has a unit that it cannot have here".into(),
            };
            return Err(Violation::new(Code::WrongBound, "/claim/lower_bound", message));
        }
        if claimed.value > *value && !exactness.same(&claimed.value, value) {
            let message = format!("the plan takes {}{unit}, which is less than this bound", quantity.show(value));
            return Err(Violation::new(Code::BoundAboveTime, "/claim/lower_bound", message));
        }
    }
    if let Some(proved) = &proved
        && kind != CertificateKind::None
    {
        let behind = match quantity {
            Quantity::TimePerByte => " per byte",
            Quantity::MeanSeconds => " s on average",
            Quantity::Steps | Quantity::Epochs => unit,
        };
        // Prices say nothing about an all-reduce whose partial sums go to several nodes at once.
        let rooted = kind == CertificateKind::Dual && plan.body.collective == Collective::AllReduce;
        let which = if rooted { "no plan that adds up every part at one node" } else { "no plan" };
        report.proved.push(format!("{which} is faster than {}{behind} (`{}`)", quantity.show(proved), kind.word()));
        if let Some(figures) = &mut report.figures {
            figures.lower_bound = Some(proved.clone());
        }
    } else if kind != CertificateKind::None {
        report.not_rechecked.push(format!("the lower bound rests on a certificate of kind `{}`", kind.word()));
    }
    optimal(plan, achieved, kind, proved.as_ref(), unit, report)?;
    if kind != CertificateKind::None {
        let rechecked = proved.is_some();
        let bound = proved.or_else(|| claim.lower_bound.as_ref().map(|bound| bound.value.clone()));
        let optimal = bound.as_ref().is_some_and(|bound| exactness.same(bound, value));
        report.proof = Some(Proof { kind, quantity: *quantity, value: value.clone(), bound, optimal, rechecked });
    }
    Ok(())
}

fn optimal(
    plan: &Plan,
    achieved: &Achieved,
    kind: CertificateKind,
    proved: Option<&Rational>,
    unit: &str,
    report: &mut Report,
) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let (value, exactness) = (&achieved.value, achieved.exactness);
    let says_optimal = claim.optimal == Some(true);
    if says_optimal && claim.status.is_some_and(|status| status != Status::Optimal)
        || claim.optimal == Some(false) && claim.status == Some(Status::Optimal)
    {
        let message = "`optimal` and `status` do not agree";
        return Err(Violation::new(Code::NotOptimal, "/claim/status", message));
    }
    if !says_optimal && claim.status != Some(Status::Optimal) {
        return Ok(());
    }
    // Nothing is below zero: where no link in use has a limit, nothing need prove that.
    if kind == CertificateKind::None && !value.is_zero() {
        let message = "a plan that calls itself optimal names what proves it";
        return Err(Violation::new(Code::UnprovedOptimal, "/claim/certificate", message));
    }
    let bound = proved.or(claim.lower_bound.as_ref().map(|bound| &bound.value));
    match bound {
        Some(bound) if exactness.same(bound, value) => {}
        Some(bound) => {
            let (value, bound) = (achieved.quantity.show(value), achieved.quantity.show(bound));
            let message = format!("the plan takes {value}{unit}, the bound is {bound}");
            return Err(Violation::new(Code::NotOptimal, "/claim/optimal", message));
        }
        None => {
            let message = "a plan that calls itself optimal says what its bound is";
            return Err(Violation::new(Code::UnprovedOptimal, "/claim/lower_bound", message));
        }
    }
    match proved {
        Some(_) => report.proved.push("the plan is optimal".into()),
        None => {
            report.not_rechecked.push("that the plan is optimal".into());
            let kind = kind.word();
            report.warnings.push(format!(
                "the plan calls itself optimal, and what is to prove it is a certificate of kind `{kind}` that was not \
                 rechecked"
            ));
        }
    }
    Ok(())
}

/// Claims of other kinds of content.
fn foreign(plan: &Plan) -> Result<(), Violation> {
    let (claim, kind) = (&plan.body.claim, plan.body.content.kind());
    let loads = matches!(kind, ContentKind::Trees | ContentKind::Paths | ContentKind::Steps);
    let (steps, sends) = (kind == ContentKind::Steps, kind == ContentKind::Sends);
    let flows = matches!(kind, ContentKind::Rates | ContentKind::Weights | ContentKind::Order);
    let keys = [
        ("T", claim.t.is_some(), flows),
        ("T_B", claim.t_b.is_some(), steps),
        ("T_L", claim.t_l.is_some(), steps),
        ("T_mean_s", claim.t_mean_s.is_some(), flows),
        ("algorithm_bandwidth", claim.algorithm_bandwidth.is_some(), loads),
        ("cost", claim.cost.is_some(), loads),
        ("cost_lower_bound", claim.cost_lower_bound.is_some(), loads),
        ("finish_epochs", claim.finish_epochs.is_some(), sends),
        ("finish_us", claim.finish_us.is_some(), sends),
        ("load_sum", claim.load_sum.is_some(), steps),
        ("loads", claim.loads.is_some(), steps),
        ("sum_x", claim.sum_x.is_some(), loads && !steps),
        ("time_per_byte", claim.time_per_byte.is_some(), loads),
    ];
    match keys.into_iter().find(|(_, present, ours)| *present && !ours) {
        None => Ok(()),
        Some((key, ..)) => {
            let message = format!("`{key}` says nothing about a plan of kind `{}`", kind.word());
            Err(Violation::new(Code::ForeignClaim, format!("/claim/{key}"), message))
        }
    }
}
