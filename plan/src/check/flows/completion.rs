//! What a certificate of kind `completion` proves of the mean completion time, however flows share links.
//!
//! Collective k needs a link for pₖ seconds: its bytes there over the capacity. However a set S of collectives shares the link,
//! Σ pₖ·Tₖ ≥ ½·((Σ pₖ)² + Σ pₖ²), all sums over S: the parallel inequalities of Queyranne for the completion times of jobs on one
//! machine. Each has a price. What the prices of its rows leave of a collective's 1/K counts for the time that the longest of its
//! chains takes alone. Every operation is rounded towards a smaller bound.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::fixed::{Fixed, OutOfRange};
use super::instance::Instance;
use super::{Chains, Group};
use crate::check::Report;
use crate::check::fabric::Fabric;
use crate::check::violation::{Code, Violation};
use crate::plan::{CompletionRow, Content, Plan};
use sluice_formats::quantity::Rational;

/// Prices may be too high together by one part of so many, as solvers round.
const ROUNDING: u64 = 1_000_000_000;
/// Where the rows stand.
const AT: &str = "/claim/certificate/rows";

/// An inequality with its price.
struct Row {
    price: Fixed,
    /// By place of a collective, how long it needs the link, rounded up.
    needs: Vec<(usize, Fixed)>,
    /// ½·((Σ p)² + Σ p²), rounded down.
    bound: Fixed,
}

/// The bound of the mean completion time in seconds that these rows prove.
pub fn bound(plan: &Plan, fabric: &Fabric<'_>, rows: &[CompletionRow]) -> Result<Rational, Violation> {
    let flows = match &plan.body.content {
        Content::Rates(of) => &of.flows,
        Content::Weights(of) => &of.flows,
        Content::Order(of) => &of.flows,
        _ => return Err(crate::check::bound::foreign(plan, "rows")),
    };
    let chains = Chains::new(plan, fabric, flows, &mut Report::new())?;
    let instance = Instance::new(&chains, fabric)?;
    let places: BTreeSet<u64> = chains.groups.keys().map(|(number, _): &Group| *number).collect();
    let places: HashMap<u64, usize> = places.into_iter().zip(0..).collect();
    // Bytes of a collective on a link, and the number of flows they are of.
    let mut volumes: HashMap<(u32, usize), (Fixed, u64)> = HashMap::new();
    for flow in &instance.transfers {
        for link in &flow.route {
            let (volume, count) = volumes.entry((*link, flow.collective)).or_default();
            (*volume, *count) = (volume.plus(flow.size)?, *count + 1);
        }
    }
    let too_far = |OutOfRange| {
        let message = "prices, or what they prove, are too large for the times that the flows take";
        Violation::new(Code::TooFine, AT, message)
    };
    let mut read = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        let bad = |key: &str, message: String| Violation::new(Code::BadCertificate, format!("{AT}/{i}{key}"), message);
        if row.price.is_negative() {
            return Err(bad("/price", "the price is below zero".into()));
        }
        let Some(link) = instance.place(row.link) else {
            return Err(bad("/link", format!("no flow takes a link {} that has a limit", row.link)));
        };
        let (mut needs, mut seen) = (Vec::with_capacity(row.collectives.len()), HashSet::new());
        for (j, number) in row.collectives.iter().enumerate() {
            let key = format!("/collectives/{j}");
            let of = places.get(number).and_then(|place| Some((*place, volumes.get(&(link, *place))?)));
            let Some((place, volume)) = of else {
                return Err(bad(&key, format!("collective {number} has no flow on link {}", row.link)));
            };
            if !seen.insert(place) {
                return Err(bad(&key, format!("collective {number} stands twice")));
            }
            needs.push((place, *volume));
        }
        if needs.is_empty() {
            return Err(bad("/collectives", "a row without collectives says nothing".into()));
        }
        let capacity = instance.capacities[link as usize];
        read.push(Row::new(&instance.per_time(&row.price), capacity, &needs).map_err(too_far)?);
    }
    let alone = alone(&instance)?;
    let bound = match prove(&read, &alone, |price| price).map_err(too_far)? {
        // Prices that are lower by a billionth prove nearly as much, and leave room for what a solver rounded.
        None => prove(&read, &alone, |price| price.less(price.nth(ROUNDING).up(1))).map_err(too_far)?,
        bound => bound,
    };
    bound.map(|bound| instance.seconds(bound)).ok_or_else(|| {
        let message = format!("prices times needs come to more than 1/{} for a collective", instance.collectives);
        Violation::new(Code::BadCertificate, AT, message)
    })
}

impl Row {
    /// Of a price per unit of time, the capacity of the link, and what collectives have to move on it.
    fn new(price: &Rational, capacity: Fixed, volumes: &[(usize, (Fixed, u64))]) -> Result<Row, OutOfRange> {
        let (mut sum, mut squares, mut needs) = (Fixed::ZERO, Fixed::ZERO, Vec::with_capacity(volumes.len()));
        for (collective, (volume, flows)) in volumes {
            let least = volume.over(capacity.up(1))?;
            sum = sum.plus(least)?;
            squares = squares.plus(least.times(least)?)?;
            // The sizes were rounded down, each by less than a unit.
            needs.push((*collective, volume.up(*flows).over(capacity)?.up(1)));
        }
        Ok(Row { price: Fixed::floor(price)?, needs, bound: sum.times(sum)?.plus(squares)?.nth(2) })
    }
}

/// By collective, the time of its longest chain if every flow has its route for itself, rounded down.
fn alone(instance: &Instance) -> Result<Vec<Fixed>, OutOfRange> {
    let mut longest = vec![Fixed::ZERO; instance.collectives];
    for group in &instance.groups {
        let mut now = Fixed::ZERO;
        for flow in group {
            let of = &instance.transfers[*flow];
            let takes = instance.takes(*flow, of.alone.map(|rate| rate.up(1)))?;
            now = now.max(of.release).plus(takes)?;
            longest[of.collective] = longest[of.collective].max(now);
        }
    }
    Ok(longest)
}

/// What rows prove at these prices; `None`: they ask more of a collective than its share of the mean.
fn prove(rows: &[Row], alone: &[Fixed], price: impl Fn(Fixed) -> Fixed) -> Result<Option<Fixed>, OutOfRange> {
    let mut asked = vec![Fixed::ZERO; alone.len()];
    let mut bound = Fixed::ZERO;
    for row in rows {
        let price = price(row.price);
        bound = bound.plus(price.times(row.bound)?)?;
        for (collective, need) in &row.needs {
            asked[*collective] = asked[*collective].plus(price.times(*need)?.up(1))?;
        }
    }
    let share = Fixed::ONE.nth(alone.len() as u64);
    for (asked, alone) in asked.into_iter().zip(alone) {
        if asked > share {
            return Ok(None);
        }
        bound = bound.plus(share.less(asked).times(*alone)?)?;
    }
    Ok(Some(bound))
}
