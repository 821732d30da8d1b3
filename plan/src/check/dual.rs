//! Lower bounds that prices of the limits prove: of T/M, and of the cost of any plan of a given time.
//!
//! Whatever a plan does, in T it moves at most T · capacity over every limit, so that all its data at these prices costs
//! at most T · Σ price · capacity. What it must cost at least is known ([`super::ways`]): the quotient bounds T from
//! below, whoever chose the prices. Where links have a cost besides, every plan pays at least the cheapest ways and trees at
//! cost and price together, and of the prices no more than T · Σ price · capacity: the difference bounds the cost.

use super::fabric::Fabric;
use super::violation::{Code, Violation};
use super::ways;
use crate::plan::Plan;
use sluice_formats::quantity::{Rational, common_denominator};

/// What prices of the limits come to.
struct Prices {
    /// Per link: its own price, and those of the groups it is in.
    of_link: Vec<Rational>,
    /// Σ price · capacity.
    room: Rational,
}

/// The bound of T/M that these prices prove; `None` where finding out would take too long.
pub fn bound(plan: &Plan, fabric: &Fabric<'_>, prices: &[Rational]) -> Result<Option<Rational>, Violation> {
    let at = "/claim/certificate/prices";
    let Prices { of_link, room } = Prices::read(fabric, prices, at)?;
    if room.is_zero() {
        let message = "all prices are zero, which proves nothing";
        return Err(Violation::new(Code::BadCertificate, at, message));
    }
    Ok(ways::least(plan, fabric, &of_link, at)?.and_then(|cost| cost.checked_div(&room)))
}

/// What a plan that takes at most `time` costs at least, per M; `None` where finding out would take too long.
pub fn cost_bound(
    plan: &Plan,
    fabric: &Fabric<'_>,
    prices: &[Rational],
    time: &Rational,
) -> Result<Option<Rational>, Violation> {
    let at = "/claim/certificate/cost_prices";
    let Prices { mut of_link, room } = Prices::read(fabric, prices, at)?;
    for (sum, link) in of_link.iter_mut().zip(fabric.topology.links()) {
        *sum += &link.cost;
    }
    // No cost is below zero, so no plan's is.
    let bound = |least: Rational| (&least - &(time * &room)).max(Rational::ZERO);
    Ok(ways::least(plan, fabric, &of_link, at)?.map(bound))
}

impl Prices {
    /// One price for each limit: links with a finite capacity by their index, then groups. `at` is where they stand.
    fn read(fabric: &Fabric<'_>, prices: &[Rational], at: &str) -> Result<Prices, Violation> {
        let bad = |message: String| Violation::new(Code::BadCertificate, at, message);
        let links = fabric.topology.links();
        let limited = links.iter().enumerate().filter_map(|(i, link)| Some((i, link.capacity.finite()?)));
        let limited: Vec<(usize, &Rational)> = limited.collect();
        let expected = limited.len() + fabric.groups().len();
        if prices.len() != expected {
            let message = format!("{} prices; there are {expected} limits: finite links, then groups", prices.len());
            return Err(bad(message));
        }
        if let Some(place) = prices.iter().position(Rational::is_negative) {
            return Err(bad(format!("the price at place {place} is below zero")));
        }
        if common_denominator(prices).is_none() {
            return Err(Violation::new(Code::TooFine, at, "no common denominator of at most 4096 bits"));
        }
        let (of_links, of_groups) = prices.split_at(limited.len());
        let mut of_link = vec![Rational::ZERO; links.len()];
        let mut room = Rational::ZERO;
        for ((link, capacity), price) in limited.iter().zip(of_links) {
            of_link[*link] += price;
            room += &(*capacity * price);
        }
        for (group, price) in fabric.groups().iter().zip(of_groups).filter(|(_, price)| !price.is_zero()) {
            let Some(capacity) = group.capacity.finite() else {
                let name = super::quoted(&group.name);
                return Err(bad(format!("a price of the group `{name}`, which has no limit")));
            };
            group.links.iter().for_each(|link| of_link[*link] += price);
            room += &(capacity * price);
        }
        Ok(Prices { of_link, room })
    }
}
