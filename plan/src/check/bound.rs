//! Lower bounds of T/M, recomputed from their certificates.
//!
//! A cut counts the data that must leave a set of nodes against what leads out of it; in-network copy and reduction
//! do not help across a cut. `bandwidth` is the same for single nodes: what each must take in or give out; of an all-reduce, what all nodes or all machines
//! together must take in. Limits that
//! groups set are left out of both, which keeps them lower bounds. What prices of the limits prove is said in
//! [`super::dual`], what holds for epochs in [`super::sends`], for mean completion times in `flows::completion`.

use std::collections::HashSet;

use super::achieved::Quantity;
use super::demand::{Demand, Group};
use super::fabric::{Cable, Fabric};
use super::violation::{Code, Violation};
use crate::plan::{Certificate, CertificateKind, Collective, Content, Plan};
use sluice_formats::quantity::{Capacity, Rational};

/// Links that searches for ways may follow, all together.
const MAX_SEARCH_STEPS: usize = 1 << 30;

/// The bound that the certificate proves, in this quantity; `None` for kinds that cannot be rechecked.
pub fn recompute(
    plan: &Plan,
    fabric: &Fabric<'_>,
    certificate: &Certificate,
    quantity: Quantity,
) -> Result<Option<Rational>, Violation> {
    let foreign = |key: &str| {
        let message = format!("a certificate of kind `{}` has no `{key}`", certificate.kind.word());
        Violation::new(Code::BadCertificate, format!("/claim/certificate/{key}"), message)
    };
    let loads = matches!(plan.body.content, Content::Trees(_) | Content::Paths(_) | Content::Steps(_));
    if certificate.cost_prices.is_some() && !loads {
        return Err(self::foreign(plan, "cost_prices"));
    }
    if certificate.nodes.is_some() && certificate.kind != CertificateKind::Cut {
        return Err(foreign("nodes"));
    }
    if certificate.prices.is_some() && certificate.kind != CertificateKind::Dual {
        return Err(foreign("prices"));
    }
    if certificate.rows.is_some() && certificate.kind != CertificateKind::Completion {
        return Err(foreign("rows"));
    }
    match (certificate.kind, quantity) {
        (CertificateKind::Cut, Quantity::TimePerByte) => cut(plan, fabric, certificate).map(Some),
        (CertificateKind::Bandwidth, Quantity::TimePerByte) => bandwidth(plan, fabric).map(Some),
        (CertificateKind::Diameter, Quantity::Steps) => diameter(plan, fabric),
        (
            CertificateKind::Cut | CertificateKind::Distance | CertificateKind::Port | CertificateKind::Gateway,
            Quantity::Epochs,
        ) => super::sends::bound(plan, fabric, certificate),
        (CertificateKind::Dual, Quantity::TimePerByte) => match &certificate.prices {
            Some(prices) => super::dual::bound(plan, fabric, prices),
            None => Ok(None),
        },
        (CertificateKind::Completion, Quantity::MeanSeconds) => match &certificate.rows {
            Some(rows) => super::flows::bound(plan, fabric, rows).map(Some),
            None => {
                let message = "a certificate of kind `completion` without rows";
                Err(Violation::new(Code::BadCertificate, "/claim/certificate/rows", message))
            }
        },
        (CertificateKind::None, _) => Ok(Some(Rational::ZERO)),
        (CertificateKind::Dual | CertificateKind::Solver, _) => Ok(None),
        (other, _) => {
            let kind = plan.body.content.kind().word();
            let message =
                format!("a certificate of kind `{}` says nothing about a plan of kind `{kind}`", other.word());
            Err(Violation::new(Code::BadCertificate, "/claim/certificate/kind", message))
        }
    }
}

/// For errors: a key of a certificate that says nothing about this kind of plan.
pub fn foreign(plan: &Plan, key: &str) -> Violation {
    let message = format!("`{key}` says nothing about a plan of kind `{}`", plan.body.content.kind().word());
    Violation::new(Code::BadCertificate, format!("/claim/certificate/{key}"), message)
}

/// The most links between two participants that exchange something: no schedule has fewer steps.
/// `None` where that would take too long.
fn diameter(plan: &Plan, fabric: &Fabric<'_>) -> Result<Option<Rational>, Violation> {
    if fabric.participants.len().saturating_mul(fabric.cables.len()) > MAX_SEARCH_STEPS {
        return Ok(None);
    }
    let mut near = vec![Vec::new(); fabric.topology.nodes().len()];
    for cable in &fabric.cables {
        near[cable.from].push(cable.to);
    }
    let collective = plan.body.collective;
    let begins = |node: &usize| match collective {
        Collective::Broadcast | Collective::Scatter => fabric.root == Some(*node),
        Collective::AllGather => fabric.share(*node) > 0,
        _ => true,
    };
    let ends = |node: usize| match collective {
        Collective::Reduce | Collective::Gather => fabric.root == Some(node),
        Collective::ReduceScatter => fabric.share(node) > 0,
        _ => true,
    };
    let mut most = 0_u64;
    for start in fabric.participants.iter().filter(|node| begins(node)) {
        let mut distance = vec![None; near.len()];
        distance[*start] = Some(0_u64);
        let mut queue = std::collections::VecDeque::from([*start]);
        while let Some(node) = queue.pop_front() {
            let next = distance[node].map(|distance| distance + 1);
            for to in &near[node] {
                if distance[*to].is_none() {
                    distance[*to] = next;
                    queue.push_back(*to);
                }
            }
        }
        for node in fabric.participants.iter().filter(|node| ends(**node)) {
            let Some(distance) = distance[*node] else {
                let message = format!("no way leads from {} to {}", fabric.id(*start), fabric.id(*node));
                return Err(Violation::new(Code::BadCertificate, "/claim/certificate", message));
            };
            most = most.max(distance);
        }
    }
    Ok(Some(Rational::from(most)))
}

/// data / capacity; no bound where capacity is unlimited.
fn over(data: &Rational, capacity: &Capacity) -> Option<Rational> {
    match capacity.finite() {
        None => Some(Rational::ZERO),
        Some(capacity) => data.checked_div(capacity),
    }
}

fn cut(plan: &Plan, fabric: &Fabric<'_>, certificate: &Certificate) -> Result<Rational, Violation> {
    let bad = |message: String| Violation::new(Code::BadCertificate, "/claim/certificate/nodes", message);
    let inside = fabric.side_of_cut(plan, certificate)?;
    let (mut outward, mut inward) = (Capacity::Finite(Rational::ZERO), Capacity::Finite(Rational::ZERO));
    for cable in &fabric.cables {
        match (inside[cable.from], inside[cable.to]) {
            (true, false) => outward = outward.plus(&cable.capacity),
            (false, true) => inward = inward.plus(&cable.capacity),
            _ => {}
        }
    }
    if plan.body.collective == Collective::Custom {
        let demand = demand(plan, fabric)?;
        let leaves = |group: &Group| inside[group.source] && group.ends.iter().any(|end| !inside[*end]);
        let data = demand.part(leaves);
        if data.is_zero() {
            return Err(bad("nothing has to leave it".into()));
        }
        return over(&data, &outward)
            .ok_or_else(|| bad("no link leads out of it: no plan at all would be possible".into()));
    }
    let within: Vec<usize> = fabric.participants.iter().copied().filter(|node| inside[*node]).collect();
    let (here, all) = (within.len(), fabric.participants.len());
    if here == 0 || here == all {
        return Err(bad("no participant on one of its two sides: nothing has to cross it".into()));
    }
    let has_root = fabric.root.is_some_and(|root| inside[root]);
    let shares: u128 = within.iter().map(|node| u128::from(fabric.share(*node))).sum();
    let share = || {
        let sum = Rational::from_big(shares.into(), 1.into()).unwrap_or(Rational::ZERO);
        sum.checked_div(&fabric.whole()).unwrap_or(Rational::ZERO)
    };
    let parts = |count: usize| Rational::new(count as i128, all as i128).unwrap_or(Rational::ZERO);
    let bound = match plan.body.collective {
        // The data of the participants inside must get out.
        Collective::AllGather | Collective::Broadcast => over(&share(), &outward),
        // The parts of the sum that end inside need something from outside.
        Collective::ReduceScatter | Collective::Reduce => over(&share(), &inward),
        // Either side needs a sum of the other's vectors.
        Collective::AllReduce => {
            over(&Rational::ONE, &outward).zip(over(&Rational::ONE, &inward)).map(|(out, into)| out.max(into))
        }
        Collective::AllToAll => over(&(&parts(here) * &Rational::from((all - here) as u64)), &outward),
        Collective::Scatter if has_root => over(&parts(all - here), &outward),
        Collective::Scatter => over(&parts(here), &inward),
        Collective::Gather if has_root => over(&parts(all - here), &inward),
        Collective::Gather => over(&parts(here), &outward),
        // Done above.
        Collective::Custom => None,
    };
    bound.ok_or_else(|| bad("no link crosses it: no plan at all would be possible".into()))
}

/// The demands of a plan of trees; other kinds have other ways to say what they prove of theirs.
fn demand(plan: &Plan, fabric: &Fabric<'_>) -> Result<Demand, Violation> {
    match plan.body.content {
        Content::Trees(_) => Demand::new(plan, fabric),
        _ => Err(Fabric::unserved(plan.body.collective, plan.body.content.kind().word())),
    }
}

fn bandwidth(plan: &Plan, fabric: &Fabric<'_>) -> Result<Rational, Violation> {
    let bad = |message: &str| Violation::new(Code::BadCertificate, "/claim/certificate", message);
    let n = fabric.topology.nodes().len();
    let none = || vec![Capacity::Finite(Rational::ZERO); n];
    let (mut into, mut out) = (none(), none());
    for cable in &fabric.cables {
        out[cable.from] = out[cable.from].plus(&cable.capacity);
        into[cable.to] = into[cable.to].plus(&cable.capacity);
    }
    let all = fabric.participants.len();
    let others = |node: usize| {
        let rest = &fabric.whole() - &Rational::from(fabric.share(node));
        rest.checked_div(&fabric.whole()).unwrap_or(Rational::ZERO)
    };
    let but_one = Rational::new(all as i128 - 1, all as i128).unwrap_or(Rational::ZERO);
    let demands = (plan.body.collective == Collective::Custom).then(|| demand(plan, fabric)).transpose()?;
    let of_node = |node: usize| -> Option<Rational> {
        let (into, out) = (&into[node], &out[node]);
        let none = || Some(Rational::ZERO);
        // What a node need not take in or give out costs nothing, even where it has no link that way.
        let over = |data: &Rational, capacity| if data.is_zero() { none() } else { over(data, capacity) };
        match plan.body.collective {
            Collective::AllGather | Collective::Broadcast => over(&others(node), into),
            Collective::ReduceScatter | Collective::Reduce => over(&others(node), out),
            Collective::AllToAll => over(&but_one, into).zip(over(&but_one, out)).map(|(into, out)| into.max(out)),
            Collective::Scatter if fabric.root == Some(node) => over(&but_one, out),
            Collective::Gather if fabric.root == Some(node) => over(&but_one, into),
            Collective::Custom => {
                let demand = demands.as_ref()?;
                let (owned, wanted) = (
                    demand.part(|group| group.source == node),
                    demand.part(|group| group.ends.binary_search(&node).is_ok()),
                );
                over(&wanted, into).zip(over(&owned, out)).map(|(into, out)| into.max(out))
            }
            _ => none(),
        }
    };
    if plan.body.collective == Collective::AllReduce {
        let ways = [all_reduce(fabric, false), all_reduce(fabric, true)];
        let best = ways.iter().flatten().max().cloned();
        return best.ok_or_else(|| match ways {
            [Err(helper), _] => bad(&format!("{helper} can copy or reduce, so the participants need not do it all")),
            _ => bad("no participant has a link"),
        });
    }
    let mut bound = Rational::ZERO;
    for node in &fabric.participants {
        bound = bound.max(of_node(*node).ok_or_else(|| bad("a participant has no link"))?);
    }
    Ok(bound)
}

/// Every element needs n − 1 arrivals until one of n places has its sum, and n − 1 more until all have: everything that
/// leads into the places must carry 2(n − 1) times the data. A place is a participant or, `by_machine`, a machine with
/// everything in it. What helps outside would spoil the count; then its id is given.
fn all_reduce<'f>(fabric: &'f Fabric<'_>, by_machine: bool) -> Result<Rational, &'f str> {
    let nodes = fabric.topology.nodes();
    let taking_part: HashSet<&str> =
        fabric.participants.iter().filter_map(|node| nodes[*node].machine.as_deref()).collect();
    // A place is called by its machine, or by a node on its own.
    let place = |node: usize| -> Option<(bool, &str)> {
        match nodes[node].machine.as_deref().filter(|machine| by_machine && taking_part.contains(machine)) {
            Some(machine) => Some((true, machine)),
            None => fabric.takes_part(node).then(|| (false, fabric.id(node))),
        }
    };
    let helps = |node: &usize| place(*node).is_none() && (nodes[*node].can.copy || nodes[*node].can.reduce);
    if let Some(helper) = (0..nodes.len()).find(helps) {
        return Err(fabric.id(helper));
    }
    let places: HashSet<_> = fabric.participants.iter().filter_map(|node| place(*node)).collect();
    let enters = |cable: &&Cable| place(cable.to).is_some() && place(cable.from) != place(cable.to);
    let zero = Capacity::Finite(Rational::ZERO);
    let sum = fabric.cables.iter().filter(enters).fold(zero, |sum, cable| sum.plus(&cable.capacity));
    let data = Rational::from(2 * (places.len() as u64 - 1));
    // A single place that nothing leads into bounds nothing.
    Ok(if data.is_zero() { data } else { over(&data, &sum).unwrap_or(Rational::ZERO) })
}
