//! The claim against the recomputed figures.

use super::fabric::Fabric;
use super::load::Loads;
use super::violation::{Code, Violation};
use super::{Figures, Report, bound};
use crate::plan::{CertificateKind, Claim, Plan, Status};
use crate::quantity::{Rational, Unit};

/// Where a plan comes from, which decides how its claims are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Born {
    /// From exact arithmetic: claims are compared as fractions.
    Exact,
    /// From linear programming: claims are compared within 10⁻⁷, relative.
    Lp,
}

impl Born {
    fn same(self, a: &Rational, b: &Rational) -> bool {
        match self {
            Born::Exact => a == b,
            Born::Lp => {
                let apart = a - b;
                let apart = if apart.is_negative() { -&apart } else { apart };
                let allowed = Rational::new(1, 10_000_000).map_or(Rational::ZERO, |tolerance| &tolerance * a.max(b));
                apart <= allowed
            }
        }
    }
}

/// Compares everything that is claimed.
pub fn check(
    plan: &Plan,
    fabric: &Fabric<'_>,
    loads: &Loads,
    born: Born,
    report: &mut Report,
) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    foreign(claim)?;
    let slowest = loads.slowest(fabric);
    let unit = fabric.topology.unit();
    let bandwidth = slowest.time.recip().map(|rate| unit.express(&rate));
    report.figures = Some(Figures {
        time_per_byte: slowest.time.clone(),
        algorithm_bandwidth: bandwidth.clone(),
        unit,
        lower_bound: None,
        bottleneck: slowest.place.clone(),
    });
    let seconds = unit != Unit::Abstract;
    let suffix = if seconds { " s/B" } else { "" };
    let time = &slowest.time;
    if let Some(claimed) = &claim.time_per_byte {
        if claimed.seconds != seconds || !born.same(&claimed.value, time) {
            let message = format!("the loads say {time}{suffix} (on {})", slowest.place);
            return Err(Violation::new(Code::WrongTime, "/claim/time_per_byte", message));
        }
        report.proved.push(format!("time per byte {time}{suffix}, limited by {}", slowest.place));
    }
    for (key, claimed) in [("algorithm_bandwidth", &claim.algorithm_bandwidth), ("sum_x", &claim.sum_x)] {
        let Some(claimed) = claimed else { continue };
        if !bandwidth.as_ref().is_some_and(|bandwidth| born.same(&claimed.0, bandwidth)) {
            let message = match &bandwidth {
                Some(bandwidth) => format!("the loads say {bandwidth}"),
                None => "no link limits this plan, so it has no bandwidth".into(),
            };
            return Err(Violation::new(Code::WrongBandwidth, format!("/claim/{key}"), message));
        }
        report.proved.push(format!("{key} {}", claimed.0));
    }
    check_bound(plan, fabric, time, born, report)
}

fn check_bound(
    plan: &Plan,
    fabric: &Fabric<'_>,
    time: &Rational,
    born: Born,
    report: &mut Report,
) -> Result<(), Violation> {
    let claim = &plan.body.claim;
    let certificate = claim.certificate.as_ref();
    let kind = certificate.map_or(CertificateKind::None, |certificate| certificate.kind);
    let proved = match certificate {
        Some(certificate) => bound::recompute(plan, fabric, certificate)?,
        None => Some(Rational::ZERO),
    };
    let seconds = fabric.topology.unit() != Unit::Abstract;
    if let Some(claimed) = &claim.lower_bound {
        // The unit may be left out of the bound: it is that of the time.
        let wrong_unit = claimed.seconds && !seconds;
        if wrong_unit || proved.as_ref().is_some_and(|proved| !born.same(proved, &claimed.value)) {
            let message = match &proved {
                Some(proved) => format!("the certificate of kind `{}` proves {proved}", kind.word()),
                None => "the bound has a unit, and the topology has none".into(),
            };
            return Err(Violation::new(Code::WrongBound, "/claim/lower_bound", message));
        }
        if claimed.value > *time && !born.same(&claimed.value, time) {
            let message = format!("the plan takes {time}, which is less than this bound");
            return Err(Violation::new(Code::BoundAboveTime, "/claim/lower_bound", message));
        }
    }
    if let Some(proved) = &proved
        && kind != CertificateKind::None
    {
        report.proved.push(format!("no plan is faster than {proved} per byte (`{}`)", kind.word()));
        if let Some(figures) = &mut report.figures {
            figures.lower_bound = Some(proved.clone());
        }
    } else if kind != CertificateKind::None {
        report.not_rechecked.push(format!("the lower bound rests on a certificate of kind `{}`", kind.word()));
    }
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
    if kind == CertificateKind::None {
        let message = "a plan that calls itself optimal names what proves it";
        return Err(Violation::new(Code::UnprovedOptimal, "/claim/certificate", message));
    }
    let bound = proved.as_ref().or(claim.lower_bound.as_ref().map(|bound| &bound.value));
    match bound {
        Some(bound) if born.same(bound, time) => {}
        Some(bound) => {
            let message = format!("the plan takes {time} per byte, the bound is {bound}");
            return Err(Violation::new(Code::NotOptimal, "/claim/optimal", message));
        }
        None => {
            let message = "a plan that calls itself optimal says what its bound is";
            return Err(Violation::new(Code::UnprovedOptimal, "/claim/lower_bound", message));
        }
    }
    match proved {
        Some(_) => report.proved.push("the plan is optimal".into()),
        None => report.not_rechecked.push("that the plan is optimal".into()),
    }
    Ok(())
}

/// Claims of other kinds of content.
fn foreign(claim: &Claim) -> Result<(), Violation> {
    let keys = [
        ("T", claim.t.is_some()),
        ("T_B", claim.t_b.is_some()),
        ("T_L", claim.t_l.is_some()),
        ("T_mean_s", claim.t_mean_s.is_some()),
        ("finish_epochs", claim.finish_epochs.is_some()),
        ("finish_us", claim.finish_us.is_some()),
        ("load_sum", claim.load_sum.is_some()),
        ("loads", claim.loads.is_some()),
    ];
    match keys.into_iter().find(|(_, present)| *present) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("`{key}` says nothing about trees or paths");
            Err(Violation::new(Code::ForeignClaim, format!("/claim/{key}"), message))
        }
    }
}
